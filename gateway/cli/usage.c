#include "gateway/cli/usage.h"

#include <string.h>

#include "gateway/base/nearest.h"

#define EXIT_USAGE 2

/* In the order of the help; further rows of a command are other ways to call it. */
static const struct usage_row {
    const char *command, *synopsis, *about;
} rows[] = {
    {"serve",
     "[--config FILE] [--listen HOST:PORT] [--data DIR]\n"
     "[--log-level debug|info|warn|error] [--log-format logfmt|json]",
     "serves until SIGTERM; SIGHUP reads keys again"},
    {"check-config", "FILE", "reports all faults of a configuration"},
    {"print-config", "[FILE]", "prints the effective configuration without secrets"},
    {"keys", "", "lists all configuration keys"},
    {"doctor", "[--config FILE] [--data DIR] [--full]", "checks a data directory; only reads"},
    {"backup", "[--config FILE] [--data DIR] FILE",
     "copies the database, even of a running gateway"},
    {"import", "--config FILE DIR", "copies a data directory to the store on PostgreSQL"},
    {"export", "--config FILE DIR", "the way back, to a new data directory"},
    {"verify", "FILE", "checks the continuity proofs in an export; - is stdin"},
    {"token", "--sub NAME [--ttl 1h] [--config FILE] [--data DIR]",
     "prints a token for that owner"},
    {"admin", "[--config FILE] [--data DIR] …", "asks the gateway of that directory"},
    {"chat",
     "[URL] [MESSAGE...] [--attach FILE] [--save DIR]\n"
     "[--agent NAME] [--conversation ID] [--token TOKEN]",
     "asks, and prints the answer; - among the words is stdin, and so is\n"
     "no message at all, which on a terminal begins a talk (/help)"},
    {"chat", "[URL] --continue [MESSAGE...]", "asks in the conversation that changed last"},
    {"chat", "[URL] --resume CONVERSATION/TASK [--after N] [--save DIR]",
     "shows the rest of a task"},
    {"chat", "[URL] --cancel CONVERSATION/TASK", "stops a task"},
    {"chat", "[URL] --list [--conversation ID]", "lists conversations, or tasks of one"},
    {"version", "", "prints the version"},
    {"help", "[COMMAND]", "prints this, or more about one command"},
};

static const struct {
    const char *command, *synopsis, *about;
} verbs[] = {
    {"admin", "kick OWNER", "closes the owner's connections"},
    {"admin", "revoke OWNER [--ttl 1h]", "and locks the owner out, for good or that long"},
    {"admin", "unrevoke OWNER", "lets the owner in again"},
    {"admin", "revocations", "lists revoked owners"},
    {"admin", "nodes", "lists the gateways that share the store"},
    {"admin", "workers", "lists workers, their instances and runs"},
    {"admin", "drain WORKER", "gives it no more runs, and tells it to leave"},
    {"admin", "undrain WORKER", "gives it runs again"},
    {"admin", "drain", "the gateway itself stops as planned, as by SIGTERM"},
    {"admin", "drain-node NODE", "the same of another one that shares the store"},
    {"admin", "state", "who is connected, which tasks run, counters: JSON"},
    {"admin", "watch", "the same every second, as an event stream"},
    {"admin", "console", "opens a page with all of this on a port of this machine"},
    {"admin", "as OWNER METHOD PATH [BODY]",
     "sends a request of the HTTP API, such as GET /v1/conversations"},
};

/* commands: separated by blanks; value: the word for it, NULL without one. */
static const struct usage_option {
    const char *commands;
    int letter;
    const char *name, *value, *about;
} options[] = {
    {"serve doctor backup import export token admin", 'c', "config", "FILE",
     "the configuration: JSON, with comments"},
    {"serve print-config check-config", 'l', "listen", "HOST:PORT",
     "where to listen, whatever the configuration says"},
    {"serve print-config check-config doctor backup token admin", 'd', "data", "DIR",
     "the data directory, whatever the configuration says"},
    {"serve", 'v', "log-level", "debug|info|warn|error", "the least of what is logged"},
    {"serve", 'f', "log-format", "logfmt|json", "how it is logged, on stderr"},
    {"doctor", 'F', "full", NULL, "reads every page and every event"},
    {"token", 's', "sub", "NAME", "the owner whom it names"},
    {"token admin", 't', "ttl", "1h", "how long it holds: 90s, 15m, 1h, 7d"},
    {"chat", 'a', "agent", "NAME", "asks that agent instead of the default one"},
    {"chat", 'i', "conversation", "ID", "asks in that conversation"},
    {"chat", 'C', "continue", NULL, "goes on in the conversation that changed last"},
    {"chat", 'A', "attach", "FILE", "sends it along, as often as it is given"},
    {"chat", 'S', "save", "DIR", "saves the files that the task gives there"},
    {"chat", 'k', "token", "TOKEN", "by default that of HOLDFAST_TOKEN, else a guest's"},
    {"chat", 'r', "resume", "CONVERSATION/TASK", "shows a task from its beginning, or …"},
    {"chat", 'n', "after", "N", "… behind that event"},
    {"chat", 'x', "cancel", "CONVERSATION/TASK", "stops it"},
    {"chat", 'L', "list", NULL, "the newest first, one a line"},
    {"chat", 'j', "json", NULL, "prints the task's events as the gateway sends them, one a line"},
};

#define ABOUT_AT 37 /* columns before what a command does */
#define VERB_AT 37
#define OPTION_AT 37

/* --- the help --------------------------------------------------------------------------------- */

/* "  left", then the lines of about in their column: behind it, or below it when it is long. */
static void put_entry(FILE *out, int indent, const char *left, int column, const char *about)
{
    int at = fprintf(out, "%*s%s", indent, "", left);
    for (const char *line = about; *line; line += strspn(line, "\n")) {
        int n = (int)strcspn(line, "\n");
        bool is_below = line != about || at + 2 > column;
        fprintf(out, "%s%*s%.*s", is_below ? "\n" : "", is_below ? column : column - at, "", n,
                line);
        line += n;
    }
    fputc('\n', out);
}

/* The lines of a synopsis, then what it does; columns count characters, and these are ASCII but for
 * one sign that ends its line. */
static void put_row(FILE *out, const struct usage_row *row)
{
    const char *rest = strchr(row->synopsis, '\n');
    int n = rest ? (int)(rest - row->synopsis) : (int)strlen(row->synopsis);
    char left[128];
    snprintf(left, sizeof left, "holdfast %s%s%.*s", row->command, n ? " " : "", n, row->synopsis);
    if (!rest) {
        put_entry(out, 2, left, ABOUT_AT, row->about);
        return;
    }
    fprintf(out, "  %s\n%*s%s\n", left, 12 + (int)strlen(row->command), "", rest + 1);
    put_entry(out, 0, "", ABOUT_AT, row->about);
}

static void put_options(FILE *out, const char *command)
{
    char left[64];
    struct option its[USAGE_OPTIONS];
    usage_options(command, its);
    if (its[0].name)
        fputc('\n', out);
    for (size_t i = 0; its[i].name; i++)
        for (size_t j = 0; j < countof(options); j++) {
            if (options[j].letter != its[i].val)
                continue;
            snprintf(left, sizeof left, "--%s%s%s", options[j].name, options[j].value ? " " : "",
                     options[j].value ? options[j].value : "");
            put_entry(out, 4, left, OPTION_AT, options[j].about);
        }
}

bool usage_has(const char *command)
{
    for (size_t i = 0; i < countof(rows); i++)
        if (strcmp(rows[i].command, command) == 0)
            return true;
    return false;
}

void usage_print(FILE *out, const char *command)
{
    if (!command)
        fprintf(out, "holdfast %s - a WebSocket gateway with resumable task streams\n\n",
                HOLDFAST_VERSION);
    for (size_t i = 0; i < countof(rows); i++) {
        bool is_last = i + 1 == countof(rows) || strcmp(rows[i + 1].command, rows[i].command) != 0;
        if (command && strcmp(command, rows[i].command) != 0)
            continue;
        put_row(out, &rows[i]);
        for (size_t j = 0; is_last && j < countof(verbs); j++)
            if (strcmp(verbs[j].command, rows[i].command) == 0)
                put_entry(out, 4, verbs[j].synopsis, VERB_AT, verbs[j].about);
    }
    if (command)
        put_options(out, command);
}

int usage_fail(const char *command, const char *why)
{
    fprintf(stderr, "holdfast: %s (more: holdfast %s --help)\n", why, command);
    return EXIT_USAGE;
}

/* Keeps the name that resembles the misspelt one most, if it was a slip. */
static void keep_nearer(const char *misspelt, const char *name, const char **nearest)
{
    size_t d = nearest_distance(str_of(misspelt), str_of(name)), least = NEAREST_SLIP + 1;
    if (*nearest)
        least = nearest_distance(str_of(misspelt), str_of(*nearest));
    if (d < least && d * 3 <= strlen(misspelt)) /* "dance" is no "cancel" */
        *nearest = name;
}

int usage_unknown(const char *command)
{
    const char *nearest = NULL;
    for (size_t i = 0; i < countof(rows); i++)
        keep_nearer(command, rows[i].command, &nearest);
    if (*command)
        fprintf(stderr, "holdfast: there is no command \"%.40s\"%s%s%s", command,
                nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "");
    else
        fprintf(stderr, "holdfast: a command is missing");
    fprintf(stderr, ": holdfast help has all of them\n");
    return EXIT_USAGE;
}

/* Whether a synopsis begins with that verb. */
static bool is_of(const char *synopsis, const char *verb)
{
    size_t n = strcspn(synopsis, " ");
    return strlen(verb) == n && strncmp(synopsis, verb, n) == 0;
}

/* The synopsis of the verb that is meant; NULL for none. */
static const char *nearest_verb(const char *command, const char *verb)
{
    const char *found = NULL, *nearest = NULL;
    char name[64];
    for (size_t i = 0; i < countof(verbs); i++) {
        if (strcmp(verbs[i].command, command) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(verbs[i].synopsis, " "),
                 verbs[i].synopsis);
        nearest = NULL;
        keep_nearer(verb, name, &nearest);
        if (nearest)
            found = verbs[i].synopsis;
    }
    return found;
}

int usage_fail_verb(const char *command, const char *verb)
{
    char why[160];
    const char *nearest = verb ? nearest_verb(command, verb) : NULL;
    if (!verb)
        snprintf(why, sizeof why, "%s needs a verb", command);
    else
        snprintf(why, sizeof why, "%s has no verb \"%.40s\"%s%.*s%s", command, verb,
                 nearest ? "; did you mean " : "", nearest ? (int)strcspn(nearest, " ") : 0,
                 nearest ? nearest : "", nearest ? "?" : "");
    for (size_t i = 0; verb && i < countof(verbs); i++)
        if (strcmp(verbs[i].command, command) == 0 && is_of(verbs[i].synopsis, verb)) {
            snprintf(why, sizeof why, "it is holdfast %s %s", command, verbs[i].synopsis);
            break; /* the fullest form */
        }
    return usage_fail(command, why);
}

/* --- options ---------------------------------------------------------------------------------- */

static bool is_named(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = names; (at = strstr(at, name)) != NULL; at += n)
        if ((at == names || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0))
            return true;
    return false;
}

void usage_options(const char *command, struct option ret[USAGE_OPTIONS])
{
    size_t n = 0;
    for (size_t i = 0; i < countof(options); i++)
        if (is_named(options[i].commands, command)) {
            ASSERT(n + 1 < USAGE_OPTIONS);
            ret[n++] =
                (struct option){options[i].name, options[i].value ? required_argument : no_argument,
                                NULL, options[i].letter};
        }
    ret[n] = (struct option){0};
}

static void tell_unknown(const char *command, const struct option *known, const char *word,
                         char ret_why[160])
{
    const char *nearest = NULL, *name = strncmp(word, "--", 2) == 0 ? word + 2 : "";
    for (; known->name; known++)
        keep_nearer(name, known->name, &nearest);
    snprintf(ret_why, 160, "%s has no option %.80s%s%s%s", command, word,
             nearest ? "; did you mean --" : "", nearest ? nearest : "", nearest ? "?" : "");
}

int usage_next(const char *command, int argc, char **argv, char ret_why[160])
{
    struct option known[USAGE_OPTIONS];
    usage_options(command, known);
    opterr = 0;
    int at = optind, letter = getopt_long(argc, argv, ":", known, NULL);
    const char *word = argv[letter == '?' && optind > at ? optind - 1 : at];
    if (letter == ':')
        snprintf(ret_why, 160, "%.100s needs a value", argv[optind - 1]);
    else if (letter == '?')
        tell_unknown(command, known, word ? word : "", ret_why);
    return letter == ':' ? '?' : letter;
}
