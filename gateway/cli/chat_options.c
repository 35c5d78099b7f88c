#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/cli/chat.h"
#include "gateway/cli/usage.h"
#include "proto/limits.h"

#define DEFAULT_URL "ws://127.0.0.1:8080"
#define MAX_STDIN (1u << 20)

static bool chat_read_number(const char *text, uint64_t *ret)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || n > MAX_SAFE_INTEGER)
        return false;
    *ret = n;
    return true;
}

/* CONVERSATION/TASK: neither id has a slash. */
static bool read_task(const char *text, struct chat_options *o)
{
    const char *slash = strchr(text, '/');
    if (!slash || slash == text || !slash[1])
        return false;
    free(o->task);
    o->task = xstrdup(str_of(text));
    o->task[slash - text] = 0;
    o->conversation = o->task;
    return true;
}

static const char *read_flags(int argc, char **argv, struct chat_options *o)
{
    static char why[160];
    const char *task = NULL;
    for (int c; (c = usage_next("chat", argc, argv, why)) != -1;) {
        switch (c) {
        case 'a': o->agent = optarg; break;
        case 'i': o->conversation = optarg; break;
        case 'k':
            o->token = optarg;
            o->token_from = "--token";
            break;
        case 'r':
            o->what = CHAT_RESUME;
            task = optarg;
            break;
        case 'x':
            o->what = CHAT_CANCEL;
            task = optarg;
            break;
        case 'L': o->what = CHAT_LIST; break;
        case 'C': o->continues = true; break;
        case 'j': o->prints_json = true; break;
        case 'A': buf_put(&o->attach, optarg, strlen(optarg) + 1); break;
        case 'S': o->save = optarg; break;
        case 'n':
            if (!chat_read_number(optarg, &o->after))
                return "--after is the number of an event";
            break;
        default: return why;
        }
    }
    return task && !read_task(task, o) ? "a task is named CONVERSATION/TASK" : NULL;
}

static const char *check_paths(const struct chat_options *o)
{
    static char why[256];
    struct stat st;
    for (size_t at = 0; at < o->attach.len; at += strlen(o->attach.bytes + at) + 1) {
        const char *path = o->attach.bytes + at;
        if (access(path, R_OK) == 0)
            continue;
        snprintf(why, sizeof why, "--attach: %.160s: %s", path, strerror(errno));
        return why;
    }
    if (!o->save || (stat(o->save, &st) == 0 && S_ISDIR(st.st_mode)))
        return NULL;
    snprintf(why, sizeof why, "--save: there is no folder %.160s", o->save);
    return why;
}

/* The options that do not go together. */
static const char *check_flags(const struct chat_options *o)
{
    bool follows = o->what == CHAT_ASK || o->what == CHAT_RESUME;
    if (o->continues && (o->what != CHAT_ASK || o->conversation))
        return "--continue goes with a question alone, and not with --conversation";
    if (o->prints_json && !follows)
        return "--json is for the events of a task";
    if (o->attach.len > 0 && o->what != CHAT_ASK)
        return "--attach is for a question";
    if (o->save && !follows)
        return "--save is for the files that a task gives";
    return check_paths(o);
}

static const char *read_stdin(struct buf *out)
{
    while (out->len <= MAX_STDIN) {
        char *at = buf_reserve(out, 65536);
        ssize_t n = read(STDIN_FILENO, at, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        out->len += (size_t)n;
    }
    if (out->len > MAX_STDIN)
        return "the message is too long";
    if (out->len && out->bytes[out->len - 1] == '\n')
        out->len--;
    return NULL;
}

/* "-" stands for stdin, as a part of its own. */
static const char *read_words(char **words, struct buf *out)
{
    bool had_stdin = false, is_part = false;
    const char *error = NULL;
    for (size_t i = 0; words[i] && !error; i++) {
        bool is_stdin = strcmp(words[i], "-") == 0 && !had_stdin;
        buf_puts(out, i == 0 ? "" : is_stdin || is_part ? "\n\n" : " ");
        is_part = is_stdin;
        had_stdin = had_stdin || is_stdin;
        if (is_stdin)
            error = read_stdin(out);
        else
            buf_puts(out, words[i]);
    }
    return error;
}

static const char *read_message(char **words, struct chat_options *o)
{
    if (o->what != CHAT_ASK)
        return words[0] ? "a message is only for a question" : NULL;
    o->talks = !words[0] && !o->prints_json && isatty(STDIN_FILENO);
    if (o->talks)
        return NULL;
    const char *error = words[0] ? read_words(words, &o->message) : read_stdin(&o->message);
    return error ? error : o->message.len == 0 ? "there is no message" : NULL;
}

/* HOST:PORT, an address that lacks its scheme.  Other words have a colon too: in an address only
 * digits follow it, and a name begins with a letter.  A word with a dot, a bracket or "localhost"
 * before the colon is one with any port; other names need two digits at least, because of
 * "note:1". */
static bool is_bare_address(const char *word)
{
    static const char in_names[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    const char *colon = strrchr(word, ':');
    if (!colon || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")] || strpbrk(word, " /"))
        return false;
    size_t n = (size_t)(colon - word);
    bool is_name = isalpha((unsigned char)word[0]) && strspn(word, in_names) == n && colon[2];
    return is_name || (n == 9 && strncmp(word, "localhost", n) == 0) || memchr(word, '.', n) ||
           word[0] == '[';
}

static bool has_scheme(const char *word)
{
    static const char *const schemes[] = {"ws:", "wss:", "http:", "https:"};
    for (size_t i = 0; i < countof(schemes); i++)
        if (strncmp(word, schemes[i], strlen(schemes[i])) == 0 && !strchr(word, ' '))
            return true;
    return strstr(word, "://");
}

static const char *read_url(char ***words, struct chat_options *o)
{
    static char why[256];
    const char *first = **words;
    if (first && is_bare_address(first)) {
        snprintf(why, sizeof why,
                 "an address needs its scheme: ws://%.60s, or wss://HOST:PORT with TLS (a message "
                 "that begins like that is put in quotes, whole)",
                 first);
        return why;
    }
    if (first && has_scheme(first))
        o->url_text = *(*words)++;
    const char *url = o->url_text ? o->url_text : DEFAULT_URL;
    if (chat_url_read(url, &o->url))
        return NULL;
    snprintf(why, sizeof why, "the URL %.100s is malformed: it must look like ws://127.0.0.1:8080",
             url);
    return why;
}

bool chat_options_read(int argc, char **argv, struct chat_options *ret, const char **ret_error)
{
    const char *token = getenv("HOLDFAST_TOKEN");
    struct chat_options o = {0};
    if (token && *token)
        o = (struct chat_options){.token = token, .token_from = "HOLDFAST_TOKEN"};
    const char *error = read_flags(argc, argv, &o);
    if (!error)
        error = check_flags(&o);
    char **words = argv + optind;
    if (!error)
        error = read_url(&words, &o);
    if (!error)
        error = read_message(words, &o);
    if (error) {
        chat_options_done(&o);
        *ret_error = error;
        return false;
    }
    *ret = o;
    return true;
}

void chat_options_done(struct chat_options *o)
{
    chat_url_done(&o->url);
    buf_done(&o->message);
    buf_done(&o->attach);
    free(o->task);
}
