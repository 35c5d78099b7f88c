#include "gateway/cli/chat_path.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/buf.h"
#include "proto/str.h"
#include "proto/utf8.h"

static void put_home(const char **typed, struct buf *out)
{
    const char *home = getenv("HOME");
    if ((*typed)[0] != '~' || ((*typed)[1] && (*typed)[1] != '/') || !home || !*home)
        return;
    buf_puts(out, home);
    ++*typed;
}

/* As a shell reads it: '…' as it is, in "…" a backslash before " and \, elsewhere before all. */
static void unquote(const char *typed, struct buf *out)
{
    char quote = 0;
    for (; *typed; typed++) {
        bool escapes = *typed == '\\' && typed[1] && quote != '\'' &&
                       (!quote || typed[1] == '"' || typed[1] == '\\');
        if (escapes)
            buf_putc(out, *++typed);
        else if (quote ? *typed == quote : *typed == '\'' || *typed == '"')
            quote = quote ? 0 : *typed;
        else
            buf_putc(out, *typed);
    }
}

char *chat_path_read(const char *typed)
{
    struct buf plain = {0}, quoted = {0};
    const char *rest = typed;
    put_home(&rest, &plain);
    buf_puts(&plain, rest);
    if (access(plain.bytes, F_OK) == 0 || !strpbrk(typed, "\\'\""))
        return buf_take(&plain);
    rest = typed;
    put_home(&rest, &quoted);
    unquote(rest, &quoted);
    if (quoted.len > 0 && access(quoted.bytes, F_OK) == 0) {
        buf_done(&plain);
        return buf_take(&quoted);
    }
    buf_done(&quoted);
    return buf_take(&plain);
}

static bool is_showable(const char *name)
{
    struct str all = str_of(name);
    uint32_t code;
    for (size_t i = 0; i < all.n;) {
        i += utf8_step(all.p + i, all.n - i, &code);
        if (code == UTF8_BROKEN || code < ' ' || (code >= 0x7f && code < 0xa0))
            return false;
    }
    return true;
}

static bool is_folder(const char *folder, const char *name)
{
    struct buf path = {0};
    struct stat st;
    buf_putf(&path, "%s/%s", folder, name);
    bool is = stat(path.bytes, &st) == 0 && S_ISDIR(st.st_mode);
    buf_done(&path);
    return is;
}

void chat_path_complete(struct str begun, void (*add)(void *arg, struct str path), void *arg)
{
    char *typed = xstrdup(begun);
    char *slash = strrchr(typed, '/');
    const char *name = slash ? slash + 1 : typed, *rest = typed;
    struct buf folder = {0}, word = {0};
    struct dirent **found = NULL;
    size_t kept = (size_t)(name - typed);
    if (kept > 0)
        put_home(&rest, &folder);
    if (name > rest)
        buf_put(&folder, rest, (size_t)(name - rest));
    int n = scandir(folder.len ? folder.bytes : ".", &found, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *its = found[i]->d_name;
        bool is_hidden = its[0] == '.' && name[0] != '.';
        bool is_self = strcmp(its, ".") == 0 || strcmp(its, "..") == 0;
        if (!is_hidden && !is_self && is_showable(its) && str_begins(str_of(its), str_of(name))) {
            buf_clear(&word);
            buf_put(&word, typed, kept);
            buf_puts(&word, its);
            buf_puts(&word, is_folder(folder.len ? folder.bytes : ".", its) ? "/" : "");
            add(arg, buf_str(&word));
        }
        free(found[i]);
    }
    free(found);
    free(typed);
    buf_done(&folder);
    buf_done(&word);
}

char *chat_path_safe_name(const char *name)
{
    struct buf out = {0};
    const char *slash = strrchr(name, '/');
    struct str rest = str_of(slash ? slash + 1 : name);
    uint32_t code;
    for (size_t n; rest.n > 0; rest = str_from(rest, n)) {
        n = utf8_step(rest.p, rest.n, &code);
        bool is_odd = code == UTF8_BROKEN || code < ' ' || (code >= 0x7f && code < 0xa0) ||
                      (code == '.' && out.len == 0);
        if (is_odd)
            buf_putc(&out, '_');
        else
            buf_put(&out, rest.p, n);
    }
    return out.len ? buf_take(&out) : xstrdup(STR("file"));
}
