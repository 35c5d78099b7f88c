#include "gateway/processes/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/base/folders.h"

#define BUBBLEWRAP "bwrap"
#define CHECK_MS 10000

/* --- the command line, as a table ------------------------------------------------------------- */

/* What each row means; to is the same path when NULL. */
enum row_kind {
    ROW_OPTION,     /* from as it stands */
    ROW_NO_NETWORK, /* the same, unless the network is allowed */
    ROW_SYSTEM,     /* a directory of the system, read-only; where it is a link, the link */
    ROW_FILE,       /* a file or directory, read-only, where there is one */
    ROW_PAIR,       /* from with to behind it */
    ROW_WORK,       /* the work folder, to be written to */
};

static const struct {
    enum row_kind kind;
    const char *from, *to;
} rows[] = {
    {ROW_OPTION, "--unshare-user-try", NULL},
    {ROW_OPTION, "--unshare-pid", NULL},
    {ROW_OPTION, "--unshare-ipc", NULL},
    {ROW_OPTION, "--unshare-uts", NULL},
    {ROW_OPTION, "--unshare-cgroup-try", NULL},
    {ROW_NO_NETWORK, "--unshare-net", NULL},
    {ROW_OPTION, "--die-with-parent", NULL},
    {ROW_PAIR, "--cap-drop", "ALL"},
    {ROW_PAIR, "--hostname", "sandbox"},
    {ROW_SYSTEM, "/usr", NULL},
    {ROW_SYSTEM, "/bin", NULL},
    {ROW_SYSTEM, "/sbin", NULL},
    {ROW_SYSTEM, "/lib", NULL},
    {ROW_SYSTEM, "/lib32", NULL},
    {ROW_SYSTEM, "/lib64", NULL},
    {ROW_FILE, "/etc/alternatives", NULL},
    {ROW_FILE, "/etc/ca-certificates.conf", NULL},
    {ROW_FILE, "/etc/group", NULL},
    {ROW_FILE, "/etc/host.conf", NULL},
    {ROW_FILE, "/etc/hosts", NULL},
    {ROW_FILE, "/etc/ld.so.cache", NULL},
    {ROW_FILE, "/etc/ld.so.conf", NULL},
    {ROW_FILE, "/etc/ld.so.conf.d", NULL},
    {ROW_FILE, "/etc/localtime", NULL},
    {ROW_FILE, "/etc/nsswitch.conf", NULL},
    {ROW_FILE, "/etc/passwd", NULL},
    {ROW_FILE, "/etc/resolv.conf", NULL},
    {ROW_FILE, "/etc/ssl/certs", NULL},
    {ROW_PAIR, "--proc", "/proc"},
    {ROW_PAIR, "--dev", "/dev"},
    {ROW_PAIR, "--tmpfs", "/tmp"},
    {ROW_WORK, NULL, SANDBOX_WORK},
    {ROW_PAIR, "--remount-ro", "/"}, /* what holds all these together */
};

static void sandbox_add(struct keep_texts *argv, const char *text)
{
    argv->list = xrealloc(argv->list, (argv->n + 2) * sizeof(char *));
    argv->list[argv->n++] = xstrdup(str_of(text));
    argv->list[argv->n] = NULL;
}

static void add_three(struct keep_texts *argv, const char *option, const char *from, const char *to)
{
    sandbox_add(argv, option);
    sandbox_add(argv, from);
    sandbox_add(argv, to);
}

static void add_system(struct keep_texts *argv, const char *path)
{
    char target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0) {
        add_three(argv, "--ro-bind-try", path, path);
        return;
    }
    target[n] = 0;
    add_three(argv, "--symlink", target, path);
}

static void add_bubblewrap(const struct sandbox *s, const char *work, struct keep_texts *argv)
{
    sandbox_add(argv, BUBBLEWRAP);
    for (size_t i = 0; i < countof(rows); i++) {
        const char *from = rows[i].from, *to = rows[i].to ? rows[i].to : from;
        switch (rows[i].kind) {
        case ROW_NO_NETWORK:
            if (!s->network)
                sandbox_add(argv, from);
            break;
        case ROW_OPTION: sandbox_add(argv, from); break;
        case ROW_SYSTEM: add_system(argv, from); break;
        case ROW_FILE: add_three(argv, "--ro-bind-try", from, to); break;
        case ROW_PAIR:
            sandbox_add(argv, from);
            sandbox_add(argv, to);
            break;
        case ROW_WORK: add_three(argv, "--bind", work, to); break;
        }
    }
}

/* --- folders ---------------------------------------------------------------------------------- */

/* BASE/ and the first half of SHA-256 of the owner, a NUL and the conversation. */
static char *make_work(const struct sandbox *s, struct str owner, struct str conversation_id,
                       char ret_error[SANDBOX_ERROR])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    struct buf text = {0}, path = {0};
    buf_putstr(&text, owner);
    buf_putc(&text, 0);
    buf_putstr(&text, conversation_id);
    ASSERT(EVP_Digest(text.bytes, text.len, digest, &n, EVP_sha256(), NULL) == 1);
    buf_done(&text);
    buf_putf(&path, "%s/", s->work);
    for (unsigned i = 0; i < n / 2; i++)
        buf_putf(&path, "%02x", digest[i]);
    char *made = buf_take(&path);
    char whole[PATH_MAX];
    if (folders_make(made) && realpath(made, whole)) { /* the keeper may stand elsewhere */
        free(made);
        return xstrdup(str_of(whole));
    }
    snprintf(ret_error, SANDBOX_ERROR, "cannot make the work folder: %s", strerror(errno));
    free(made);
    return NULL;
}

/* Absolute as it is, else below base. */
static char *join(const char *base, const char *path)
{
    struct buf out = {0};
    if (path && path[0] == '/')
        return xstrdup(str_of(path));
    buf_puts(&out, base);
    if (path && *path)
        buf_putf(&out, "/%s", path);
    return buf_take(&out);
}

/* --- the environment -------------------------------------------------------------------------- */

static char **make_env(const char *home, bool pty)
{
    static const char *const inherited[] = {"PATH", "LANG"};
    static const char *const fixed[] = {"PYTHONUNBUFFERED=1", "PAGER=cat", "GIT_PAGER=cat"};
    char **env = xcalloc((countof(inherited) + countof(fixed) + 3) * sizeof *env);
    size_t n = 0;
    struct buf text = {0};
    for (size_t i = 0; i < countof(inherited); i++) {
        const char *value = getenv(inherited[i]);
        if (!value)
            continue;
        buf_putf(&text, "%s=%s", inherited[i], value);
        env[n++] = buf_take(&text);
    }
    for (size_t i = 0; i < countof(fixed); i++)
        env[n++] = xstrdup(str_of(fixed[i]));
    buf_putf(&text, "HOME=%s", home);
    env[n++] = buf_take(&text);
    env[n++] = xstrdup(pty ? STR("TERM=xterm-256color") : STR("TERM=dumb"));
    return env;
}

void sandbox_env_done(char **env)
{
    for (size_t i = 0; env && env[i]; i++)
        free(env[i]);
    free(env);
}

/* --- the plan --------------------------------------------------------------------------------- */

bool sandbox_plan(const struct sandbox *s, const char *workdir, struct keep_spec *spec,
                  char ***ret_env, char ret_error[SANDBOX_ERROR])
{
    struct stat st;
    char *work = make_work(s, str_of(spec->owner), str_of(spec->conversation_id), ret_error);
    if (!work)
        return false;
    if (s->kind == SANDBOX_BUBBLEWRAP) {
        add_bubblewrap(s, work, &spec->argv);
        spec->sandboxed = true;
        spec->workdir = join(SANDBOX_WORK, workdir);
        sandbox_add(&spec->argv, "--chdir");
        sandbox_add(&spec->argv, spec->workdir);
        *ret_env = make_env(SANDBOX_WORK, spec->pty);
    } else {
        spec->workdir = join(work, workdir);
        spec->cwd = xstrdup(str_of(spec->workdir));
        *ret_env = make_env(work, spec->pty);
    }
    free(work);
    sandbox_add(&spec->argv, "/bin/sh");
    sandbox_add(&spec->argv, "-c");
    sandbox_add(&spec->argv, spec->command);
    if (!spec->cwd || (stat(spec->cwd, &st) == 0 && S_ISDIR(st.st_mode)))
        return true;
    snprintf(ret_error, SANDBOX_ERROR, "\"workdir\": there is no such directory");
    sandbox_env_done(*ret_env);
    *ret_env = NULL;
    return false;
}

/* --- whether it works ------------------------------------------------------------------------- */

/* Runs it with its stderr in fd; the errno of the spawn. */
static int spawn(char **argv, int fd, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    int error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, 0, 1);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, fd, 2);
    if (!error)
        error = posix_spawnp(ret_pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* What it says, one line of it, until it ends. */
static void read_complaint(int fd, char ret[128])
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    size_t len = 0;
    ret[0] = 0;
    while (len < 127 && poll(&p, 1, CHECK_MS) > 0) {
        ssize_t n = read(fd, ret + len, 127 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    ret[len] = 0;
    ret[strcspn(ret, "\n")] = 0;
}

bool sandbox_check(const struct sandbox *s, char ret_error[SANDBOX_ERROR])
{
    struct keep_spec spec = {0};
    int ends[2];
    pid_t pid = 0;
    char why[128] = "";
    if (s->kind == SANDBOX_NONE)
        return true;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        snprintf(ret_error, SANDBOX_ERROR, "cannot try bubblewrap: %s", strerror(errno));
        return false;
    }
    add_bubblewrap(s, "/tmp", &spec.argv);
    sandbox_add(&spec.argv, "/bin/true");
    int error = spawn(spec.argv.list, ends[1], &pid), status = 0;
    close(ends[1]);
    if (error) {
        snprintf(why, sizeof why, "%s", strerror(error));
    } else {
        read_complaint(ends[0], why);
        kill(pid, SIGKILL); /* it has closed its stderr: it has ended, or hangs */
        waitpid(pid, &status, 0);
    }
    close(ends[0]);
    keep_spec_done(&spec);
    if (!error && !why[0] && (WIFSIGNALED(status) || WEXITSTATUS(status) == 0))
        return true;
    snprintf(ret_error, SANDBOX_ERROR,
             "bubblewrap (bwrap) does not work here: %s; say \"terminal\": {\"sandbox\": "
             "\"none\"} to run commands without it",
             why[0] ? why : "it fails");
    return false;
}
