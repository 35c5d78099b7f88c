/* holdfast -- the program: its commands and their options. */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "gateway/agents/agent_programs.h"
#include "gateway/agents/workers.h"
#include "gateway/auth/auth.h"
#include "gateway/base/fault.h"
#include "gateway/base/log.h"
#include "gateway/base/privilege.h"
#include "gateway/cli/admin_client.h"
#include "gateway/cli/backup.h"
#include "gateway/cli/chat.h"
#include "gateway/cli/doctor.h"
#include "gateway/cli/import.h"
#include "gateway/cli/usage.h"
#include "gateway/cli/verify.h"
#include "gateway/config/config.h"
#include "gateway/crew/crew.h"
#include "gateway/descriptors.h"
#include "gateway/front/tls.h"
#include "gateway/mcp/mcp.h"
#include "gateway/processes/keeper.h"
#include "gateway/processes/spool.h"
#include "gateway/processes/supervisor.h"
#include "gateway/server.h"

#define EXIT_BAD_CONFIG 2

struct options {
    const char *command, *config, *sub, *ttl;
    bool full;
    struct config_flags flags;
};

static int main_misuse(const struct options *o, const char *why)
{
    return usage_fail(o->command, why);
}

/* False with a sentence in ret_why. */
static bool read_options(int argc, char **argv, struct options *o, char ret_why[160])
{
    for (int c; (c = usage_next(o->command, argc, argv, ret_why)) != -1;) {
        switch (c) {
        case 'c': o->config = optarg; break;
        case 'l': o->flags.listen = optarg; break;
        case 'd': o->flags.data = optarg; break;
        case 'v': o->flags.log_level = optarg; break;
        case 'f': o->flags.log_format = optarg; break;
        case 's': o->sub = optarg; break;
        case 't': o->ttl = optarg; break;
        case 'F': o->full = true; break;
        default: return false;
        }
    }
    return true;
}

/* Prints the faults, a line each; false when there are any. */
static bool tell_faults(struct buf *faults)
{
    int n = 0;
    for (size_t i = 0; i < faults->len; i++)
        n += faults->bytes[i] == '\n';
    if (n > 0)
        fprintf(stderr, "holdfast: the configuration has %d fault%s\n%.*s", n, n == 1 ? "" : "s",
                (int)faults->len, faults->bytes);
    buf_done(faults);
    return n == 0;
}

static bool main_load(const struct options *o, struct config *ret)
{
    struct buf faults = {0};
    (void)!config_load(o->config, &o->flags, ret, &faults);
    bool good = tell_faults(&faults);
    if (!good)
        config_done(ret);
    return good;
}

/* The same for what a configuration names, and a gateway needs. */
static bool main_load_named(const struct options *o, bool is_start, struct config *ret)
{
    struct buf faults = {0};
    if (!main_load(o, ret))
        return false;
    auth_close(auth_open(ret, NULL, &faults));
    (void)!workers_check(ret, &faults);
    (void)config_check_files(ret, is_start, &faults);
    const char *wrong = ret->tls.cert ? tls_check(ret) : NULL;
    if (wrong)
        buf_putf(&faults, "tls: %s\n", wrong);
    bool good = tell_faults(&faults);
    if (!good)
        config_done(ret);
    return good;
}

static void warn_of_program(const char *line)
{
    log_event(LEVEL_WARN, "agents", "program_missing", LOG_TEXT("why", line));
}

static void say_of_program(const char *line)
{
    fprintf(stderr, "warning: %s\n", line);
}

static void warn_of_mcp(const char *line, bool good)
{
    (void)good;
    log_event(LEVEL_WARN, "mcp", "cannot_start", LOG_TEXT("why", line));
}

static void say_of_mcp(const char *line, bool good)
{
    (void)good;
    fprintf(stderr, "warning: %s\n", line);
}

static void tell_mcp(const char *line, bool good)
{
    printf("%s%s\n", good ? "" : "warning: ", line);
}

/* file: NULL at a start, for the log. */
static void tell_warnings(const struct config *config, const char *file)
{
    struct buf all = {0};
    config_warn(config, &all);
    for (struct str rest = buf_str(&all); rest.n > 0;) {
        size_t n = (size_t)((const char *)memchr(rest.p, '\n', rest.n) - rest.p);
        if (file)
            fprintf(stderr, "%s: warning: %.*s\n", file, (int)n, rest.p);
        else
            log_event(LEVEL_WARN, "server", "doubtful", LOG_STR("why", ((struct str){rest.p, n})));
        rest.p += n + 1;
        rest.n -= n + 1;
    }
    buf_done(&all);
}

static int main_serve(const struct options *o)
{
    struct config config;
    if (!main_load_named(o, true, &config))
        return EXIT_BAD_CONFIG;
    /* One arena for all threads: readers make blocks and the loop frees them, so an arena for each
     * reader would keep everything that has passed through it (a replay of 200 MB kept 27 MiB). */
    mallopt(M_ARENA_MAX, 1);
    log_open((enum log_level)config.log.level, (enum log_format)config.log.format);
    if (privilege_is_root(geteuid()))
        log_event(LEVEL_ERROR, "server", "runs_as_root",
                  LOG_TEXT("why", "agents and commands have its rights: give it its own user"));
    tell_warnings(&config, NULL);
#ifdef HOLDFAST_FAULTS
    const char *wrong = fault_open();
    if (wrong) {
        config_done(&config);
        return main_misuse(o, wrong);
    }
#endif
    agent_programs_check(&config, warn_of_program);
    mcp_check(&config, false, warn_of_mcp);
    int code = config.processes > 1 ? crew_run(&config, server_run) : server_run(&config, NULL);
#ifdef HOLDFAST_FAULTS
    fault_report();
#endif
    config_done(&config);
    return code;
}

static int check_config(struct options *o, const char *file)
{
    struct config config;
    if (!file)
        return main_misuse(o, "check-config needs a file");
    o->config = file;
    if (!main_load_named(o, false, &config))
        return EXIT_BAD_CONFIG;
    tell_warnings(&config, file);
    printf("%s: good\n", file);
    agent_programs_check(&config, say_of_program);
    mcp_check(&config, false, say_of_mcp);
    config_done(&config);
    return 0;
}

static int print_config(struct options *o, const char *file)
{
    struct config config;
    struct buf out = {0};
    o->config = file;
    if (!main_load(o, &config))
        return EXIT_BAD_CONFIG;
    config_print(&config, &out);
    fwrite(out.bytes, 1, out.len, stdout);
    buf_done(&out);
    config_done(&config);
    return 0;
}

static int print_keys(void)
{
    struct buf out = {0};
    config_print_keys(&out);
    fwrite(out.bytes, 1, out.len, stdout);
    buf_done(&out);
    return 0;
}

/* "90", "90s", "15m", "1h", "7d" in seconds; negative for anything else. */
static int64_t seconds(const char *text)
{
    static const struct {
        const char *unit;
        int64_t factor;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    char *end;
    long long n = strtoll(text, &end, 10);
    for (size_t i = 0; i < countof(units); i++)
        if (end != text && n > 0 && n < 1000000000 && strcmp(end, units[i].unit) == 0)
            return n * units[i].factor;
    return -1;
}

static int make_token(const struct options *o)
{
    struct config config;
    struct buf faults = {0}, token = {0};
    char why[128] = "";
    int64_t ttl = seconds(o->ttl ? o->ttl : "1h");
    if (!o->sub || ttl < 0)
        return main_misuse(o, o->sub ? "--ttl is a time such as 90s, 15m, 1h or 7d"
                                     : "token needs --sub");
    if (!main_load(o, &config))
        return EXIT_BAD_CONFIG;
    struct auth *auth = auth_open(&config, config.serves_guests ? config.data : NULL, &faults);
    bool good =
        auth && auth_token(auth, str_of(o->sub), ttl, (int64_t)time(NULL) * 1000, &token, why);
    if (good)
        printf("%s\n", token.bytes);
    else
        fprintf(stderr, "holdfast: %s%.*s%s", why, (int)faults.len,
                faults.bytes ? faults.bytes : "", faults.len ? "" : "\n"); /* each has its own */
    auth_close(auth);
    buf_done(&faults);
    buf_done(&token);
    config_done(&config);
    return good ? 0 : 1;
}

/* A restart of a container ends all that runs in it. */
static bool is_in_container(pid_t gateway)
{
    return gateway == 1 || access("/.dockerenv", F_OK) == 0 ||
           access("/run/.containerenv", F_OK) == 0;
}

static void put_bounds(const void *arg, pid_t gateway, struct buf *out)
{
    if (is_in_container(gateway))
        buf_puts(out, "no agent outlives its container: a restart of that ends programs, and their "
                      "tasks as orphaned; tasks of kind react, http and worker go on\n");
    sandbox_put_bounds(arg, gateway, out);
}

static void tell_not_kept(const struct config *c, const struct config_agent *agent)
{
    const char *why = config_not_kept(c, agent);
    if (why)
        printf(
            "the programs of agent \"%s\" end with the gateway, and their tasks as orphaned: %s\n",
            agent->name, why);
}

/* The unit names its data directory by a flag, and whoever logs in has another one. */
static bool main_has_data(const struct options *o, const struct config *config)
{
    bool good = o->flags.data || access(config->data, F_OK) == 0;
    if (!good)
        fprintf(stderr,
                "holdfast: there is no data directory %s; --data names another one, such as the "
                "service's, /var/lib/holdfast\n",
                config->data);
    return good;
}

static int doctor(const struct options *o)
{
    struct config config;
    if (!main_load(o, &config))
        return EXIT_BAD_CONFIG;
    if (config.store.kind != STORE_POSTGRES && !o->config && !main_has_data(o, &config)) {
        config_done(&config);
        return 1;
    }
    struct sandbox commands = terminal_sandbox(&config);
    descriptors_tell(&config);
    mcp_check(&config, true, tell_mcp);
    const char *why = spool_probe();
    if (why)
        printf("no agent outlives the gateway here: %s\n", why);
    for (size_t i = 0; !why && i < config.n_agents; i++)
        tell_not_kept(&config, &config.agents[i]);
    bool postgres = config.store.kind == STORE_POSTGRES;
    int code = postgres
                   ? doctor_run_postgres(config.store.url_file,
                                         config.store.durability == DURABLE_REPLICATED, o->full)
                   : doctor_run(config.data, o->full, put_bounds, &commands);
    config_done(&config);
    return code;
}

static int backup(const struct options *o, const char *file)
{
    struct config config;
    if (!file)
        return main_misuse(o, "backup needs a file to write to");
    if (!main_load(o, &config))
        return EXIT_BAD_CONFIG;
    bool postgres = config.store.kind == STORE_POSTGRES;
    if (postgres)
        fprintf(stderr, "holdfast: the store is on PostgreSQL: make its backup with pg_dump\n");
    int code = EXIT_BAD_CONFIG;
    if (!postgres)
        code = main_has_data(o, &config) ? backup_run(config.data, file) : 1;
    config_done(&config);
    return code;
}

static int transfer(const struct options *o, const char *dir, bool back)
{
    struct config config;
    if (!dir)
        return main_misuse(o, "import and export need a data directory");
    if (!main_load(o, &config))
        return EXIT_BAD_CONFIG;
    bool postgres = config.store.kind == STORE_POSTGRES;
    if (!postgres)
        fprintf(stderr, "holdfast: store.kind is not \"postgres\"\n");
    int code = postgres ? import_run(config.store.url_file, dir, back) : EXIT_BAD_CONFIG;
    config_done(&config);
    return code;
}

static int admin(const struct options *o, int argc, char **argv)
{
    struct config config;
    int64_t for_s = o->ttl ? seconds(o->ttl) : 0;
    if (for_s < 0)
        return main_misuse(o, "--ttl is a time such as 90s, 15m, 1h or 7d");
    if (!main_load(o, &config))
        return EXIT_BAD_CONFIG;
    const char *socket = config.admin.socket;
    bool there = (socket && access(socket, F_OK) == 0) || main_has_data(o, &config);
    int code = there ? admin_run(socket, argc, argv, for_s) : 1;
    config_done(&config);
    return code;
}

static int chat(int argc, char **argv)
{
    struct chat_options options;
    const char *error;
    if (!chat_options_read(argc, argv, &options, &error))
        return usage_fail("chat", error);
    int code = chat_run(&options);
    chat_options_done(&options);
    return code;
}

/* Repairs what the process that started us left behind.  If one of the first three descriptors were
 * closed, the next socket would get its number, and the log would go there; a signal that is
 * blocked would never stop us. */
static void leave_inheritance(void)
{
    sigset_t none;
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGCHLD, SIG_DFL); /* ignoring it would discard the children's exit codes */
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* `help`, `help COMMAND`, and --help or -h wherever a command has options; false for none of it. */
static bool gave_help(int argc, char **argv)
{
    const char *first = argc > 1 ? argv[1] : "", *about = strcmp(first, "help") == 0 ? NULL : first;
    bool is_asked = is_help(first) || !about;
    for (int i = 2; i < argc && about && strcmp(argv[i], "--") != 0; i++)
        is_asked = is_asked || is_help(argv[i]);
    if (!about && argc > 2)
        about = argv[2];
    if (!is_asked || (about && !is_help(about) && !usage_has(about)))
        return false;
    usage_print(stdout, about && !is_help(about) ? about : NULL);
    return true;
}

static int run_serve(struct options *o, const char *file)
{
    return file ? main_misuse(o, "serve takes options only") : main_serve(o);
}

static int run_keys(struct options *o, const char *file)
{
    return file ? main_misuse(o, "keys takes nothing") : print_keys();
}

static int run_doctor(struct options *o, const char *file)
{
    return file ? main_misuse(o, "doctor takes options only") : doctor(o);
}

static int run_backup(struct options *o, const char *file)
{
    return backup(o, file);
}

static int run_import(struct options *o, const char *file)
{
    return transfer(o, file, false);
}

static int run_export(struct options *o, const char *file)
{
    return transfer(o, file, true);
}

static int run_token(struct options *o, const char *file)
{
    return file ? main_misuse(o, "token takes options only") : make_token(o);
}

static int run_verify(struct options *o, const char *file)
{
    return file ? verify_run(file) : main_misuse(o, "verify needs a file to read");
}

static int run_version(struct options *o, const char *file)
{
    if (file)
        return main_misuse(o, "version takes nothing");
    printf("holdfast %s\n", HOLDFAST_VERSION);
    return 0;
}

/* file: the first word that is no option, NULL without one. */
static const struct {
    const char *name;
    int (*run)(struct options *o, const char *file);
} commands[] = {
    {"serve", run_serve},   {"check-config", check_config}, {"print-config", print_config},
    {"keys", run_keys},     {"doctor", run_doctor},         {"backup", run_backup},
    {"import", run_import}, {"export", run_export},         {"verify", run_verify},
    {"token", run_token},   {"version", run_version}};

static int main_run(int argc, char **argv)
{
    struct options o = {.command = argc > 1 ? argv[1] : ""};
    char why[160];
    if (strcmp(o.command, "chat") == 0)
        return chat(argc - 1, argv + 1);
    if (strcmp(o.command, "--version") == 0)
        o.command = "version";
    bool asks = strcmp(o.command, "help") == 0; /* about a command that there is not */
    if (asks || !usage_has(o.command))
        return usage_unknown(asks ? argv[2] : o.command);
    if (!read_options(argc - 1, argv + 1, &o, why))
        return main_misuse(&o, why);
    if (strcmp(o.command, "admin") == 0)
        return admin(&o, argc - 1 - optind, argv + 1 + optind);
    if (optind + 1 < argc - 1) {
        snprintf(why, sizeof why, "%s takes no further word: %.80s", o.command, argv[2 + optind]);
        return main_misuse(&o, why);
    }
    for (size_t i = 0; i < countof(commands); i++)
        if (strcmp(commands[i].name, o.command) == 0)
            return commands[i].run(&o, optind < argc - 1 ? argv[1 + optind] : NULL);
    UNREACHABLE(); /* every command of usage.c has a row */
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "supervise") == 0)
        return supervisor_main(argc, argv);
    if (strcmp(command, "keep") == 0)
        return keeper_main(argc, argv);
    leave_inheritance();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file at its limit is a full disk, not a reason to die */
    return gave_help(argc, argv) ? 0 : main_run(argc, argv);
}
