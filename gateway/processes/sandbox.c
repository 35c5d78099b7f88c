#include "gateway/processes/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/base/folders.h"
#include "gateway/base/log.h"
#include "gateway/base/privilege.h"
#include "gateway/processes/cgroup.h"

#define BUBBLEWRAP "bwrap"
#define PASTA "pasta"
#define CHECK_MS 10000
#define DISK_SHARE 10 /* a conversation's folder may take one part in that many of its disk */

/* --- the command line, as a table ------------------------------------------------------------- */

/* The meaning of each row; to is the same path when NULL. */
enum row_kind {
    ROW_OPTION,     /* from, unchanged */
    ROW_NO_NETWORK, /* the same, unless the network is allowed */
    ROW_SYSTEM,     /* a directory of the system, read-only; a link stays a link */
    ROW_FILE,       /* a file or directory, read-only, if it exists */
    ROW_SHIELD,     /* the same, and no sandbox without it */
    ROW_PAIR,       /* from, followed by to */
    ROW_MEMORY,     /* a directory in memory, of the configured size */
    ROW_WORK,       /* the work folder, writable, and other paths */
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
    /* bubblewrap covers little of /proc, and root may write to the rest without any capability. */
    {ROW_FILE, "/proc/acpi", NULL},
    {ROW_FILE, "/proc/asound", NULL},
    {ROW_FILE, "/proc/driver", NULL},
    {ROW_FILE, "/proc/dynamic_debug", NULL},
    {ROW_FILE, "/proc/fs", NULL},
    {ROW_FILE, "/proc/latency_stats", NULL},
    {ROW_FILE, "/proc/mtrr", NULL},
    {ROW_FILE, "/proc/pressure", NULL},
    {ROW_FILE, "/proc/scsi", NULL},
    {ROW_SHIELD, "/proc/sys", NULL},
    {ROW_PAIR, "--dev", "/dev"},
    {ROW_MEMORY, "/dev/shm", NULL},
    {ROW_PAIR, "--remount-ro", "/dev"},
    {ROW_MEMORY, "/tmp", NULL},
    {ROW_WORK, NULL, NULL},
    {ROW_PAIR, "--remount-ro", "/"}, /* the root of all these */
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

static void add_memory(const struct sandbox *s, const char *path, struct keep_texts *argv)
{
    char size[24];
    if (s->tmp) {
        snprintf(size, sizeof size, "%" PRIu64, s->tmp);
        sandbox_add(argv, "--size");
        sandbox_add(argv, size);
    }
    sandbox_add(argv, "--tmpfs");
    sandbox_add(argv, path);
}

/* A network that only leads outward: no port of the host is forwarded, and its gateway is not the
 * host. */
static void add_pasta(struct keep_texts *argv)
{
    static const char *const words[] = {PASTA, "--quiet", "--config-net", "--no-map-gw",
                                        "-t",  "none",    "-u",           "none",
                                        "-T",  "none",    "-U",           "none"};
    for (size_t i = 0; i < countof(words); i++)
        sandbox_add(argv, words[i]);
    if (geteuid() == 0) { /* otherwise it becomes nobody, and so would the command */
        sandbox_add(argv, "--runas");
        sandbox_add(argv, "0");
    }
    sandbox_add(argv, "--");
}

/* A path is bound to itself. */
static void add_path(const char *path, struct keep_texts *argv)
{
    struct str text = str_of(path), end = STR(":ro");
    bool reads = text.n > end.n && memcmp(path + text.n - end.n, end.p, end.n) == 0;
    char *plain = xstrdup((struct str){path, text.n - (reads ? end.n : 0)});
    add_three(argv, reads ? "--ro-bind" : "--bind", plain, plain);
    free(plain);
}

static void add_work(const struct sandbox *s, const char *work, struct keep_texts *argv)
{
    if (work)
        add_three(argv, "--bind", work, SANDBOX_WORK);
    for (size_t i = 0; s->paths && s->paths[i]; i++)
        add_path(s->paths[i], argv);
}

/* work: NULL for none. */
static void add_bubblewrap(const struct sandbox *s, const char *work, struct keep_texts *argv)
{
    if (s->network && !s->host_loopback)
        add_pasta(argv);
    sandbox_add(argv, BUBBLEWRAP);
    for (size_t i = 0; i < countof(rows); i++) {
        const char *from = rows[i].from, *to = rows[i].to ? rows[i].to : from;
        switch (rows[i].kind) {
        case ROW_NO_NETWORK:
            if (!s->network)
                sandbox_add(argv, from);
            break;
        case ROW_OPTION: sandbox_add(argv, from); break;
        case ROW_MEMORY: add_memory(s, from, argv); break;
        case ROW_SYSTEM: add_system(argv, from); break;
        case ROW_FILE: add_three(argv, "--ro-bind-try", from, to); break;
        case ROW_SHIELD: add_three(argv, "--ro-bind", from, to); break;
        case ROW_PAIR:
            sandbox_add(argv, from);
            sandbox_add(argv, to);
            break;
        case ROW_WORK: add_work(s, work, argv); break;
        }
    }
}

/* --- folders ---------------------------------------------------------------------------------- */

void sandbox_name(struct str owner, struct str conversation_id, char ret[SANDBOX_NAME])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    struct buf text = {0};
    buf_putstr(&text, owner);
    buf_putc(&text, 0);
    buf_putstr(&text, conversation_id);
    ASSERT(EVP_Digest(text.bytes, text.len, digest, &n, EVP_sha256(), NULL) == 1);
    buf_done(&text);
    for (unsigned i = 0; i < n / 2; i++)
        snprintf(&ret[2 * (size_t)i], 3, "%02x", digest[i]);
}

char *sandbox_make_work(const char *base, struct str owner, struct str conversation_id,
                        char ret_error[SANDBOX_ERROR])
{
    char name[SANDBOX_NAME], whole[PATH_MAX];
    struct buf path = {0};
    sandbox_name(owner, conversation_id, name);
    buf_putf(&path, "%s/%s", base, name);
    bool made = folders_make(path.bytes) && realpath(path.bytes, whole);
    if (!made)
        snprintf(ret_error, SANDBOX_ERROR, "cannot create the work folder: %s", strerror(errno));
    buf_done(&path);
    return made ? xstrdup(str_of(whole)) : NULL; /* the keeper's own may differ */
}

/* Absolute paths unchanged, others below base. */
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

/* A user namespace counts its own processes, so the bound is set inside it. dash's option is -p;
 * bash's is -u, because its -p means something else and cannot be set. */
static void add_command(const struct sandbox *s, struct keep_spec *spec)
{
    char limit[128];
    bool is_counted = s->bounds.processes && s->kind == SANDBOX_BUBBLEWRAP && !s->cgroup[0];
    sandbox_add(&spec->argv, "/bin/sh");
    sandbox_add(&spec->argv, "-c");
    if (is_counted) {
        snprintf(limit, sizeof limit,
                 "{ ulimit -p %" PRIu64 " || ulimit -u %" PRIu64
                 "; } 2>/dev/null; exec \"$0\" -c \"$1\"",
                 s->bounds.processes, s->bounds.processes);
        sandbox_add(&spec->argv, limit);
        sandbox_add(&spec->argv, "/bin/sh");
    }
    sandbox_add(&spec->argv, spec->command);
}

void sandbox_plan_bounds(const struct sandbox *s, struct keep_spec *spec)
{
    struct statvfs disk;
    spec->bounds = s->bounds;
    if (!spec->bounds.folder && spec->folder && statvfs(spec->folder, &disk) == 0)
        spec->bounds.folder = (uint64_t)disk.f_blocks * disk.f_frsize / DISK_SHARE;
    if (s->cgroup[0])
        spec->cgroup = xstrdup(str_of(s->cgroup));
}

bool sandbox_plan(const struct sandbox *s, const char *workdir, struct keep_spec *spec,
                  char ***ret_env, char ret_error[SANDBOX_ERROR])
{
    struct stat st;
    char *work =
        sandbox_make_work(s->work, str_of(spec->owner), str_of(spec->conversation_id), ret_error);
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
    spec->folder = work;
    sandbox_plan_bounds(s, spec);
    add_command(s, spec);
    if (!spec->cwd || (stat(spec->cwd, &st) == 0 && S_ISDIR(st.st_mode)))
        return true;
    snprintf(ret_error, SANDBOX_ERROR, "\"workdir\": there is no such directory");
    sandbox_env_done(*ret_env);
    *ret_env = NULL;
    return false;
}

/* --- whether it works ------------------------------------------------------------------------- */

/* Runs it with its stderr in fd; returns the errno of the spawn. */
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

/* Reads one line of its output, until it ends. */
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

static bool try_it(const struct sandbox *s, char ret_error[SANDBOX_ERROR])
{
    struct keep_spec spec = {0};
    int ends[2];
    pid_t pid = 0;
    char why[128] = "";
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
    snprintf(ret_error, SANDBOX_ERROR, "bubblewrap (bwrap%s) does not work here: %s",
             s->network && !s->host_loopback ? ", in pasta" : "", why[0] ? why : "it fails");
    return false;
}

/* Whether it is found in PATH. */
static bool has_program(const char *name)
{
    const char *path = getenv("PATH");
    bool found = false;
    for (size_t n; path && *path && !found; path += n + (path[n] == ':')) {
        struct buf file = {0};
        n = strcspn(path, ":");
        buf_putf(&file, "%.*s/%s", (int)n, path, name);
        found = access(file.bytes, X_OK) == 0;
        buf_done(&file);
    }
    return found;
}

/* Without pasta, commands would reach whatever listens on the host's loopback, which nobody has
 * allowed. */
static bool has_network(const struct sandbox *s, char ret_error[SANDBOX_ERROR])
{
    if (!s->network || s->host_loopback || has_program(PASTA))
        return true;
    snprintf(ret_error, SANDBOX_ERROR,
             "terminal.network: without pasta (Debian package passt) commands have the host's own "
             "network, including whatever listens on its loopback: install it, or set "
             "\"host_loopback\": true");
    return false;
}

static void find_cgroup(struct sandbox *s)
{
    char why[128];
    if (cgroup_find("/proc", getpid(), s->cgroup, why) && !cgroup_enable(s->cgroup)) {
        snprintf(why, sizeof why, "the group above the gateway's: %s", strerror(errno));
        s->cgroup[0] = 0;
    }
    if (s->cgroup[0])
        log_event(LEVEL_INFO, "process", "bounds", LOG_TEXT("by", "cgroup"),
                  LOG_TEXT("path", s->cgroup));
    else
        log_event(LEVEL_INFO, "process", "bounds", LOG_TEXT("by", "rlimits"), LOG_TEXT("why", why));
}

bool sandbox_prepare(struct sandbox *s, char ret_error[SANDBOX_ERROR])
{
    size_t n;
    if (s->kind == SANDBOX_BUBBLEWRAP && !has_network(s, ret_error))
        return false;
    if (s->kind == SANDBOX_BUBBLEWRAP && !try_it(s, ret_error)) {
        n = strlen(ret_error);
        snprintf(ret_error + n, SANDBOX_ERROR - n,
                 "; set \"terminal\": {\"sandbox\": \"none\"} to run commands without it");
        return false;
    }
    find_cgroup(s);
    return true;
}

bool sandbox_works(const struct sandbox *s, char ret_error[SANDBOX_ERROR])
{
    if (!s->network || has_program(PASTA))
        return try_it(s, ret_error);
    snprintf(ret_error, SANDBOX_ERROR,
             "a sandbox has a network only with pasta (Debian package passt)");
    return false;
}

void sandbox_wrap(const struct sandbox *s, const char *cwd, char *const *command,
                  struct keep_texts *argv)
{
    add_bubblewrap(s, NULL, argv);
    sandbox_add(argv, "--chdir");
    sandbox_add(argv, cwd ? cwd : "/tmp");
    for (size_t i = 0; command[i]; i++)
        sandbox_add(argv, command[i]);
}

/* --- for doctor ------------------------------------------------------------------------------- */

static void put_bound(struct buf *out, const char *name, uint64_t number, const char *unit,
                      const char *of)
{
    if (number)
        buf_putf(out, "commands: %s: at most %" PRIu64 "%s %s\n", name, number, unit, of);
    else
        buf_putf(out, "commands: %s: no bound\n", name);
}

void sandbox_put_bounds(const struct sandbox *s, pid_t gateway, struct buf *out)
{
    char parent[PATH_MAX], why[128] = "";
    const struct bounds *b = &s->bounds;
    bool grouped = cgroup_find("/proc", gateway, parent, why);
    bool counted = grouped || (s->kind == SANDBOX_BUBBLEWRAP && !privilege_is_root(geteuid()));
    if (grouped)
        buf_putf(out, "commands: bounds by cgroups in %s\n", parent);
    else
        buf_putf(out, "commands: bounds by rlimits: %s\n", why);
    put_bound(out, "memory", b->memory >> 20, " MiB", grouped ? "of a command" : "of a process");
    put_bound(out, "processes", counted ? b->processes : 0, "", "of a command");
    put_bound(out, "processor", b->cpu_s, " s", grouped ? "of a command" : "of a process");
    put_bound(out, "files", b->file >> 20, " MiB", "each");
    put_bound(out, "/tmp", s->kind == SANDBOX_BUBBLEWRAP ? s->tmp >> 20 : 0, " MiB",
              "of a command");
    if (b->folder)
        put_bound(out, "folder", b->folder >> 20, " MiB", "of a conversation");
    else
        buf_puts(out, "commands: folder: at most a tenth of its disk for a conversation\n");
    buf_putf(out, "commands: network: %s\n",
             s->kind == SANDBOX_NONE || (s->network && s->host_loopback)
                 ? "the host's, with its loopback"
             : s->network ? "one of their own, by pasta"
                          : "none");
}
