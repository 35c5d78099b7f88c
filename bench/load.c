/* load -- the load generator of the benchmark: one thread, epoll, raw sockets, holdfast.v1.
 *
 *   load MODE --url HOST:PORT [--NAME VALUE]...
 *
 *   many     tasks of a source agent, each on a connection of its own: events/s end to end
 *   turns    tasks of our own as the agent, each with one event on its way: events/s
 *   fanout   one task, conns subscribers; we are its agent, through --socket: deliveries/s
 *   latency  paced tasks of a source agent: from the event's ts to here
 *   cancel   chat, cancel, again: from the request to the terminal event
 *   make     tasks of a source agent, for the next modes: writes --state
 *   replay   conns connections resume tasks of --state: events/s and MB/s
 *   storm    conns connections at once, hello and resume of tasks of --state: until caught up; with
 *            --alone 1 the next connects when the last has caught up
 *   live     silent tasks that nobody follows, --per of them in a conversation: memory of --pid for
 *            each
 *   idle     conns connections that follow live tasks: memory of --pid for each
 *
 * With --pid the server's CPU seconds within the timed part are printed as well (cpu_s): on a
 * shared machine, events per CPU second say more than events/s.
 *
 * Prints one JSON object and exits 0; says what is wrong on stderr and exits 1, on any gap in a
 * sequence above all. */
#include "load.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options options = {.agent = "source",
                          .conns = 1000,
                          .tasks = 1000,
                          .events = 1000,
                          .bytes = 120,
                          .per = 1,
                          .burst = 1,
                          .window = 1,
                          .repeat = 1,
                          .connecting = 256,
                          .seconds = 5,
                          .timeout_s = 120};

static const struct {
    const char *name;
    const char **text;
    int64_t *number;
} names[] = {
    {"url", &options.url, NULL},         {"state", &options.state, NULL},
    {"agent", &options.agent, NULL},     {"socket", &options.socket, NULL},
    {"face", &options.face, NULL},       {"conns", NULL, &options.conns},
    {"tasks", NULL, &options.tasks},     {"events", NULL, &options.events},
    {"bytes", NULL, &options.bytes},     {"per", NULL, &options.per},
    {"burst", NULL, &options.burst},     {"interval", NULL, &options.interval_ms},
    {"window", NULL, &options.window},   {"alone", NULL, &options.alone},
    {"repeat", NULL, &options.repeat},   {"warm", NULL, &options.warm},
    {"skip", NULL, &options.skip},       {"connecting", NULL, &options.connecting},
    {"pid", NULL, &options.pid},         {"idle", NULL, &options.idle},
    {"seconds", NULL, &options.seconds}, {"timeout", NULL, &options.timeout_s},
    {"spin", NULL, &options.spin},       {"coalesce", NULL, &options.coalesce},
};

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"many", run_many},
    {"turns", run_turns},
    {"fanout", run_fanout},
    {"latency", run_latency},
    {"cancel", run_cancel},
    {"make", run_make},
    {"replay", run_replay},
    {"storm", run_storm},
    {"idle", run_idle},
    {"live", run_live},
    {"replay_face", run_replay_face},
    {"many_face", run_many_face},
};

char load_token[2048];
struct task_ref *load_tasks;
size_t n_load_tasks;

static uint64_t n_welcome;
static int64_t deadline_ns;

/* --- turning ---------------------------------------------------------------------------------- */

void load_wait(const uint64_t *counter, uint64_t value, const char *what)
{
    while (*counter < value) {
        clients_turn(100);
        if (now_ns() > deadline_ns)
            die("timed out: %llu of %llu %s", (unsigned long long)*counter,
                (unsigned long long)value, what);
    }
}

void load_rest(int ms)
{
    for (int64_t end = now_ns() + (int64_t)ms * 1000000; now_ns() < end;)
        clients_turn(20);
}

bool load_is(const char *line, const char *type)
{
    size_t n = strlen(type);
    return strncmp(line, "{\"type\":\"", 9) == 0 && strncmp(line + 9, type, n) == 0 &&
           line[9 + n] == '"';
}

void load_unexpected(const struct client *c, const char *line)
{
    if (load_is(line, "error") || load_is(line, "goaway"))
        die("connection %u: %s", c->number, line);
}

double load_server_cpu(void)
{
    char path[320];
    double ns = 0;
    snprintf(path, sizeof path, "/proc/%lld/task", (long long)options.pid);
    DIR *dir = options.pid ? opendir(path) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        char used[64];
        snprintf(path, sizeof path, "/proc/%lld/task/%s/schedstat", (long long)options.pid,
                 e->d_name);
        FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (f && fgets(used, sizeof used, f))
            ns += (double)strtoull(used, NULL, 10);
        if (f)
            fclose(f);
    }
    if (dir)
        closedir(dir);
    return ns / 1e9;
}

/* --- signing in ------------------------------------------------------------------------------- */

const char *load_hello(void)
{
    static char line[2200];
    int n = snprintf(line, sizeof line, "{\"type\":\"hello\"");
    if (load_token[0])
        n += snprintf(line + n, sizeof line - (size_t)n, ",\"token\":\"%s\"", load_token);
    snprintf(line + n, sizeof line - (size_t)n, "}");
    return line;
}

static void say_hello(struct client *c)
{
    client_sendf(c, "%s", load_hello());
}

static void take_welcome(struct client *c, const char *line)
{
    load_unexpected(c, line);
    if (!load_is(line, "welcome"))
        return;
    if (!load_token[0])
        text_field(line, "token", load_token, sizeof load_token);
    n_welcome++;
}

void load_open(uint32_t n)
{
    client_ops = (struct client_ops){.on_open = say_hello, .on_line = take_welcome};
    n_welcome = 0;
    for (uint32_t i = 0; i < n; i++)
        client_open();
    load_wait(&n_welcome, n, "welcomes");
    client_ops = (struct client_ops){0};
}

struct client *load_login(void)
{
    client_ops = (struct client_ops){.on_open = say_hello, .on_line = take_welcome};
    struct client *c = client_open();
    load_wait(&n_welcome, 1, "welcomes");
    client_ops = (struct client_ops){0};
    return c;
}

/* --- tasks ------------------------------------------------------------------------------------ */

const char *load_source(int64_t events, int64_t interval_ms)
{
    static char input[256];
    snprintf(input, sizeof input, "events=%lld bytes=%lld burst=%lld interval_ms=%lld",
             (long long)events, (long long)options.bytes, (long long)options.burst,
             (long long)interval_ms);
    return input;
}

static struct task_ref *add(void)
{
    struct task_ref *more = realloc(load_tasks, (n_load_tasks + 1) * sizeof *more);
    if (!more)
        die("no memory");
    load_tasks = more;
    load_tasks[n_load_tasks] = (struct task_ref){0};
    return &load_tasks[n_load_tasks++];
}

struct task_ref *load_add_task(const char *started)
{
    struct task_ref *t = add();
    if (!text_field(started, "task_id", t->id, sizeof t->id) ||
        !text_field(started, "conversation_id", t->conversation, sizeof t->conversation))
        die("no ids in %s", started);
    return t;
}

void load_write_state(void)
{
    FILE *f = fopen(options.state, "w");
    if (!f)
        die("cannot write %s", options.state);
    fprintf(f, "%s\n", load_token);
    for (size_t i = 0; i < n_load_tasks; i++)
        fprintf(f, "%s %s %llu\n", load_tasks[i].id, load_tasks[i].conversation,
                (unsigned long long)load_tasks[i].head);
    if (fclose(f) != 0)
        die("cannot write %s", options.state);
}

void load_read_state(void)
{
    char line[2200];
    FILE *f = options.state ? fopen(options.state, "r") : NULL;
    if (!f || !fgets(line, sizeof line, f))
        die("cannot read --state %s", options.state ? options.state : "");
    line[strcspn(line, "\n")] = 0;
    memcpy(load_token, line, strnlen(line, sizeof load_token - 1) + 1);
    while (fgets(line, sizeof line, f)) {
        struct task_ref *t = add();
        char head[24];
        if (sscanf(line, "%26s %31s %23s", t->id, t->conversation, head) != 3)
            die("malformed state: %s", line);
        t->head = strtoull(head, NULL, 10);
    }
    fclose(f);
    if (n_load_tasks == 0)
        die("no task in %s", options.state);
}

void load_resume(struct client *c, const struct task_ref *t, bool with_hello)
{
    client_follow(c, t->id, 0);
    client_sendf(
        c, "%s%s{\"type\":\"resume\",\"task_id\":\"%s\",\"conversation_id\":\"%s\",\"after\":0%s}",
        with_hello ? load_hello() : "", with_hello ? "\n" : "", t->id, t->conversation,
        options.coalesce ? ",\"coalesce\":true" : "");
}

/* --- samples ---------------------------------------------------------------------------------- */

void sample(struct samples *s, double ms)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 4096;
        s->at = realloc(s->at, s->cap * sizeof *s->at);
        if (!s->at)
            die("no memory");
    }
    s->at[s->n++] = ms;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double percentile(struct samples *s, double p)
{
    if (s->n == 0)
        return 0;
    qsort(s->at, s->n, sizeof *s->at, by_value);
    size_t i = (size_t)((double)s->n * p / 100);
    return s->at[i < s->n ? i : s->n - 1];
}

/* --- main ------------------------------------------------------------------------------------- */

static void set_option(const char *name, const char *value)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *end = NULL;
        if (strcmp(name, names[i].name) != 0)
            continue;
        if (names[i].text)
            *names[i].text = value;
        else
            *names[i].number = strtoll(value, &end, 10);
        if (end && (end == value || *end))
            die("--%s: %s is no number", name, value);
        return;
    }
    die("there is no --%s", name);
}

int main(int argc, char **argv)
{
    size_t mode = 0;
    while (argc > 1 && mode < sizeof modes / sizeof *modes &&
           strcmp(argv[1], modes[mode].name) != 0)
        mode++;
    if (argc < 2 || argc % 2 || mode == sizeof modes / sizeof *modes)
        die("usage: load many|fanout|latency|cancel|make|replay|storm|idle|live|replay_face|many_face --url HOST:PORT [--NAME VALUE]...");
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strncmp(argv[i], "--", 2) != 0)
            die("%s is no option", argv[i]);
        set_option(argv[i] + 2, argv[i + 1]);
    }
    if (!options.url)
        die("--url HOST:PORT is needed");
    options.mode = argv[1];
    deadline_ns = now_ns() + options.timeout_s * 1000000000;
    bool has_one_each = strcmp(options.mode, "live") != 0; /* a connection for each task */
    int64_t most = has_one_each && options.tasks > options.conns ? options.tasks : options.conns;
    clients_init(options.url, (uint32_t)(most + options.idle + 2), (uint32_t)options.connecting,
                 options.spin != 0);
    modes[mode].run();
    return 0;
}
