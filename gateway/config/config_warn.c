/* Design.  Settings that are valid, but allow more than the operator may have intended.  A warning
 * stops nothing: check-config prints it, and the log has it at a start. */
#include <ctype.h>
#include <stdio.h>
#include <unistd.h>

#include "gateway/config/config_keys.h"
#include "proto/str.h"

/* Programs, and words of a shell, that run code from their arguments, their files or their input. A
 * version may follow ("python3.11"). */
static const char *const shells[] = {
    "apt",    "apt-get", "ash",     "at",      "awk",         "bash",    "bat",       "builtin",
    "bun",    "busybox", "bwrap",   "cargo",   "chroot",      "chrt",    "cmake",     "command",
    "coproc", "crontab", "csh",     "dash",    "deno",        "doas",    "docker",    "dpkg",
    "ed",     "emacs",   "env",     "eval",    "ex",          "exec",    "expect",    "fd",
    "find",   "fish",    "flock",   "gawk",    "gcc",         "gdb",     "git",       "go",
    "hg",     "ionice",  "ipython", "java",    "jshell",      "julia",   "ksh",       "kubectl",
    "less",   "lua",     "luajit",  "make",    "man",         "mawk",    "more",      "mysql",
    "nano",   "nawk",    "nc",      "ncat",    "nice",        "ninja",   "node",      "nodejs",
    "nohup",  "npm",     "npx",     "nsenter", "nvim",        "octave",  "parallel",  "perl",
    "php",    "pip",     "pkexec",  "pnpm",    "podman",      "prlimit", "pry",       "psql",
    "pypy",   "python",  "R",       "rlwrap",  "rsync",       "ruby",    "run-parts", "runuser",
    "scp",    "screen",  "script",  "sed",     "setarch",     "setpriv", "setsid",    "sftp",
    "sh",     "socat",   "sort",    "source",  "split",       "sqlite",  "ssh",       "stdbuf",
    "strace", "su",      "sudo",    "svn",     "systemd-run", "tar",     "taskset",   "tclsh",
    "tcsh",   "tig",     "time",    "timeout", "tmux",        "trap",    "unshare",   "uv",
    "vi",     "view",    "vim",     "vimdiff", "watch",       "xargs",   "yarn",      "zip",
    "zsh",
};

bool config_runs_anything(const char *program)
{
    const char *slash = strrchr(program, '/');
    struct str name = str_of(slash ? slash + 1 : program);
    while (name.n && (isdigit((unsigned char)name.p[name.n - 1]) || name.p[name.n - 1] == '.'))
        name.n--;
    for (size_t i = 0; i < countof(shells); i++)
        if (str_eq(name, str_of(shells[i])))
            return true;
    return false;
}

static void warn_shells(const struct config_texts *programs, const char *path, struct faults *f)
{
    char at[64];

    for (size_t i = 0; i < programs->n; i++) {
        if (!config_runs_anything(programs->list[i]))
            continue;
        snprintf(at, sizeof at, "%s[%zu]", path, i);
        fault(f, at, "runs anything that it is given: approving it means approving a shell");
    }
}

static void warn_audience(const struct config *c, struct faults *f)
{
    if (c->auth.jwks_url && !c->auth.audience)
        fault(f, "auth.audience",
              "is missing: tokens that the issuer made for others are let in, too");
}

static void warn_rebinding(const struct config *c, struct faults *f)
{
    if (c->serves_guests && !c->is_loopback && c->origins.n == 0 && c->hosts.n == 0)
        fault(f, "guests",
              "may come from beyond loopback, and neither origins nor hosts restricts the name: a "
              "web page that binds its own name to this address (DNS rebinding) can act as a "
              "guest for anyone who opens it");
}

/* Coding agents run commands, with all rights of the gateway. */
static void warn_coders(const struct config *c, struct faults *f)
{
    char at[64];
    for (size_t i = 0; c->serves_guests && !c->is_loopback && i < c->n_agents; i++) {
        if (!config_is_coder(&c->agents[i]))
            continue;
        snprintf(at, sizeof at, "agents[%zu]", i);
        fault(f, at, "runs commands without a sandbox, for guests that come from beyond loopback");
    }
}

static bool is_local(struct str host)
{
    return str_begins(host, STR("127.")) || str_begins(host, STR("localhost")) ||
           str_begins(host, STR("[::1]"));
}

static void warn_mcp(const struct config *c, struct faults *f)
{
    char at[64];
    struct str plain = STR("http://");
    for (size_t i = 0; i < c->n_mcp; i++) {
        const struct config_mcp *s = &c->mcp[i];
        struct str url = str_of(s->url);
        if (!url.p || (!s->headers.n && !s->headers_file) || !str_begins(url, plain) ||
            is_local(str_from(url, plain.n)))
            continue;
        snprintf(at, sizeof at, "mcp[%zu].url", i);
        fault(f, at, "the server's headers go over the network without TLS");
    }
}

static void warn_links(const struct config *c, struct faults *f)
{
    struct str at = c->cluster.listen ? str_of(c->cluster.listen) : STR("127.");
    if (!c->cluster.tls && !is_local(at))
        fault(f, "cluster.tls", "is off: what other gateways carry goes over the network as it is");
}

static void warn_processes(const struct config *c, struct faults *f)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (cores > 0 && c->processes > 1 && c->processes > (unsigned long)cores)
        fault(f, "processes", "are more than the %ld cores of this machine", cores);
}

int config_warn(const struct config *c, struct buf *ret_warnings)
{
    struct faults f = {.out = ret_warnings};

    warn_rebinding(c, &f);
    warn_audience(c, &f);
    warn_coders(c, &f);
    warn_mcp(c, &f);
    warn_links(c, &f);
    warn_processes(c, &f);
    warn_shells(&c->terminal.approved, "terminal.approved", &f);
    warn_shells(&c->terminal.approved_input, "terminal.approved_input", &f);
    return f.n;
}
