/* holdfast -- the program: its commands and their options. */
#include <fcntl.h>
#include <getopt.h>
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
#include "gateway/config/config.h"
#include "gateway/descriptors.h"
#include "gateway/mcp/mcp.h"
#include "gateway/processes/keeper.h"
#include "gateway/processes/spool.h"
#include "gateway/processes/supervisor.h"
#include "gateway/server.h"

#define EXIT_BAD_CONFIG 2

static const char usage[] =
    "holdfast " HOLDFAST_VERSION " - a WebSocket gateway with resumable task streams\n"
    "\n"
    "  holdfast serve [--config FILE] [--listen HOST:PORT] [--data DIR]\n"
    "                 [--log-level debug|info|warn|error] [--log-format logfmt|json]\n"
    "                                     serves until SIGTERM; SIGHUP reads keys again\n"
    "  holdfast check-config FILE         reports all faults of a configuration\n"
    "  holdfast print-config [FILE]       prints the effective configuration without secrets\n"
    "  holdfast keys                      lists all configuration keys\n"
    "  holdfast doctor [--data DIR] [--full]\n"
    "                                     checks a data directory; only reads\n"
    "  holdfast backup [--data DIR] FILE  copies the database, even of a running gateway\n"
    "  holdfast import --config FILE DIR  copies a data directory to the store on PostgreSQL\n"
    "  holdfast export --config FILE DIR  the way back, to a new data directory\n"
    "  holdfast token --sub NAME [--ttl 1h] [--config FILE] [--data DIR]\n"
    "                                     prints a token for that owner\n"
    "  holdfast version                   prints the version\n";

struct options {
    const char *config, *sub, *ttl;
    bool full;
    struct config_flags flags;
};

static int say_usage(const char *why)
{
    fprintf(stderr, "holdfast: %s\n\n%s%s%s", why, usage, admin_usage, chat_usage);
    return EXIT_BAD_CONFIG;
}

static bool read_options(int argc, char **argv, struct options *o)
{
    static const struct option known[] = {
        {"config", required_argument, NULL, 'c'},
        {"listen", required_argument, NULL, 'l'},
        {"data", required_argument, NULL, 'd'},
        {"log-level", required_argument, NULL, 'v'},
        {"log-format", required_argument, NULL, 'f'},
        {"sub", required_argument, NULL, 's'},
        {"ttl", required_argument, NULL, 't'},
        {"full", no_argument, NULL, 'F'},
        {0},
    };
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
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

/* Prints the faults; false when there are any. */
static bool main_load(const struct options *o, struct config *ret)
{
    struct buf faults = {0};
    int n = config_load(o->config, &o->flags, ret, &faults);
    if (n > 0) {
        fprintf(stderr, "holdfast: the configuration has %d fault%s\n%.*s", n, n == 1 ? "" : "s",
                (int)faults.len, faults.bytes ? faults.bytes : "");
        config_done(ret);
    }
    buf_done(&faults);
    return n == 0;
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
    if (!main_load(o, &config))
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
        return say_usage(wrong);
    }
#endif
    agent_programs_check(&config, warn_of_program);
    mcp_check(&config, false, warn_of_mcp);
    int code = server_run(&config);
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
        return say_usage("check-config needs a file");
    o->config = file;
    if (!main_load(o, &config))
        return EXIT_BAD_CONFIG;
    struct buf faults = {0};
    struct auth *auth = auth_open(&config, NULL, &faults);
    bool good = workers_check(&config, &faults) && auth;
    if (!good)
        fprintf(stderr, "%.*s", (int)faults.len, faults.bytes ? faults.bytes : "");
    else
        tell_warnings(&config, file);
    if (good)
        printf("%s: good\n", file);
    if (good)
        agent_programs_check(&config, say_of_program);
    if (good)
        mcp_check(&config, false, say_of_mcp);
    auth_close(auth);
    buf_done(&faults);
    config_done(&config);
    return good ? 0 : EXIT_BAD_CONFIG;
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
        return say_usage(o->sub ? "--ttl is a time such as 90s, 15m, 1h or 7d"
                                : "token needs --sub");
    if (!main_load(o, &config))
        return EXIT_BAD_CONFIG;
    struct auth *auth = auth_open(&config, config.serves_guests ? config.data : NULL, &faults);
    bool good =
        auth && auth_token(auth, str_of(o->sub), ttl, (int64_t)time(NULL) * 1000, &token, why);
    if (good)
        printf("%s\n", token.bytes);
    else
        fprintf(stderr, "holdfast: %s%.*s\n", why, (int)faults.len,
                faults.bytes ? faults.bytes : "");
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

static int doctor(const struct options *o)
{
    struct config config;
    if (!main_load(o, &config))
        return EXIT_BAD_CONFIG;
    struct sandbox commands = terminal_sandbox(&config);
    descriptors_tell(&config);
    mcp_check(&config, true, tell_mcp);
    const char *why = spool_probe();
    if (why)
        printf("no agent outlives the gateway here: %s\n", why);
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
        return say_usage("backup needs a file to write to");
    if (!main_load(o, &config))
        return EXIT_BAD_CONFIG;
    bool postgres = config.store.kind == STORE_POSTGRES;
    if (postgres)
        fprintf(stderr, "holdfast: the store is on PostgreSQL: make its backup with pg_dump\n");
    int code = postgres ? EXIT_BAD_CONFIG : backup_run(config.data, file);
    config_done(&config);
    return code;
}

static int transfer(const struct options *o, const char *dir, bool back)
{
    struct config config;
    if (!dir)
        return say_usage("import and export need a data directory");
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
        return say_usage("--ttl is a time such as 90s, 15m, 1h or 7d");
    if (!main_load(o, &config))
        return EXIT_BAD_CONFIG;
    int code = admin_run(config.admin.socket, argc, argv, for_s);
    config_done(&config);
    return code;
}

static int chat(int argc, char **argv)
{
    struct chat_options options;
    const char *error;
    if (!chat_options_read(argc, argv, &options, &error))
        return say_usage(error);
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

/* The lines of one command, which begin two blanks in and continue further in; all of them for
 * "". */
static void print_usage_of(const char *command, const char *text)
{
    bool is_its = false;
    while (*text) {
        size_t n = strcspn(text, "\n");
        if (strncmp(text, "  holdfast ", 11) == 0)
            is_its = strncmp(text + 11, command, strlen(command)) == 0;
        if (is_its || !*command)
            printf("%.*s\n", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

static bool wants_help(int argc, char **argv)
{
    const char *word = argc > 2 ? argv[2] : argc > 1 ? argv[1] : "";
    bool is_asked = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
    if (!is_asked && strcmp(word, "help") != 0)
        return false;
    if (!is_asked && argc > 2)
        return false;
    const char *command = argc > 2 ? argv[1] : "";
    const char *const texts[] = {usage, admin_usage, chat_usage};
    for (size_t i = 0; i < countof(texts); i++)
        print_usage_of(command, texts[i]);
    return true;
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    struct options o = {0};
    if (strcmp(command, "supervise") == 0)
        return supervisor_main(argc, argv);
    if (strcmp(command, "keep") == 0)
        return keeper_main(argc, argv);
    leave_inheritance();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file at its limit is a full disk, not a reason to die */
    if (wants_help(argc, argv))
        return 0;
    if (strcmp(command, "chat") == 0)
        return chat(argc - 1, argv + 1);
    if (argc > 1 && !read_options(argc - 1, argv + 1, &o))
        return say_usage("an option was not understood");
    const char *file = optind < argc - 1 ? argv[1 + optind] : NULL;
    if (strcmp(command, "serve") == 0)
        return file ? say_usage("serve takes options only") : main_serve(&o);
    if (strcmp(command, "check-config") == 0)
        return check_config(&o, file);
    if (strcmp(command, "print-config") == 0)
        return print_config(&o, file);
    if (strcmp(command, "keys") == 0)
        return print_keys();
    if (strcmp(command, "doctor") == 0)
        return file ? say_usage("doctor takes options only") : doctor(&o);
    if (strcmp(command, "backup") == 0)
        return backup(&o, file);
    if (strcmp(command, "import") == 0 || strcmp(command, "export") == 0)
        return transfer(&o, file, *command == 'e');
    if (strcmp(command, "admin") == 0)
        return admin(&o, argc - 1 - optind, argv + 1 + optind);
    if (strcmp(command, "token") == 0)
        return make_token(&o);
    if (strcmp(command, "version") == 0 || strcmp(command, "--version") == 0) {
        printf("holdfast %s\n", HOLDFAST_VERSION);
        return 0;
    }
    return say_usage(*command ? "there is no such command" : "a command is missing");
}
