/* Commands of a talk: the lines that begin with a slash. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/cli/chat_path.h"
#include "gateway/cli/chat_private.h"
#include "proto/str.h"

#define LISTED 10        /* conversations that /resume shows */
#define LOOKED_AT 50     /* turns of it, for those that run */
#define COMPLETIONS 100  /* that Tab shows */
#define SHOWN_MESSAGES 6 /* of a conversation that goes on */

/* --- the agents ------------------------------------------------------------------------------- */

/* The names in the lines of c->agents, one after another; empty behind the last one. */
static struct str next_agent(const char **at)
{
    struct str name = {*at, strcspn(*at, " \n")};
    *at += strcspn(*at, "\n");
    *at += strspn(*at, "\n");
    return name;
}

bool chat_command_has_agent(const struct chat *c, const char *wanted)
{
    const char *at = c->agents.len ? c->agents.bytes : "";
    for (struct str name = next_agent(&at); name.n > 0; name = next_agent(&at))
        if (str_eq(name, str_of(wanted)))
            return true;
    return c->agents.len == 0; /* the gateway tells none: then it decides */
}

void chat_command_put_agents(const struct chat *c, struct buf *out)
{
    const char *at = c->agents.len ? c->agents.bytes : "";
    struct str name = next_agent(&at);
    for (bool is_first = true; name.n > 0; name = next_agent(&at), is_first = false)
        buf_putf(out, "%s%.*s", is_first ? "" : ", ", (int)name.n, name.p);
}

/* --- the conversation ------------------------------------------------------------------------- */

/* A null name: a new one.  What was asked about the one before counts no longer. */
static void choose_conversation(struct chat *c, struct str conversation)
{
    if (c->n_attached > 0)
        chat_show_aside(&c->show, "· the attached files stay behind");
    chat_attach_drop(c);
    chat_save_forget(c);
    buf_clear(&c->to_follow);
    free(c->conversation);
    c->conversation = conversation.p ? xstrdup(conversation) : NULL;
    c->n_chosen++;
}

/* A question about the chosen one; its number is the answer's id too. */
static struct buf ask_about(const struct chat *c, const char *type)
{
    struct buf r = {0};
    char id[16];
    snprintf(id, sizeof id, "%u", c->n_chosen);
    buf_putc(&r, '{');
    js_put_field(&r, "type", str_of(type));
    js_put_field(&r, "id", str_of(id));
    js_put_field(&r, "conversation_id", str_of(c->conversation));
    return r;
}

bool chat_command_still_wants(struct chat *c)
{
    char *id = chat_member(c, 0, "id");
    bool wants = strtoul(id, NULL, 10) == c->n_chosen;
    free(id);
    return wants;
}

void chat_command_look_back(struct chat *c)
{
    struct buf r = ask_about(c, "history");
    js_put_int(&r, "limit", SHOWN_MESSAGES);
    chat_send(c, &r);
    r = ask_about(c, "tasks");
    js_put_bool(&r, "turns", true);
    js_put_int(&r, "limit", LOOKED_AT);
    chat_send(c, &r);
}

/* --- what they do ----------------------------------------------------------------------------- */

void chat_command_list(struct chat *c, int limit)
{
    struct buf r = chat_request("conversations");
    js_put_int(&r, "limit", limit);
    chat_send(c, &r);
}

static void obey_resume(struct chat *c, const char *name)
{
    const char *slash = strchr(name, '/');
    size_t n = strcspn(name, "/");
    if (!*name) {
        chat_command_list(c, LISTED);
        return;
    }
    if (n == 0 || (slash && !slash[1])) {
        chat_show_aside(&c->show, "a task is named CONVERSATION/TASK");
        return;
    }
    chat_talk_forget(c);
    choose_conversation(c, (struct str){name, n});
    if (slash) {
        c->task = xstrdup(str_of(slash + 1));
        chat_ask(c);
        return;
    }
    chat_command_look_back(c);
}

static void obey_agent(struct chat *c, const char *name)
{
    struct buf names = {0};
    if (!chat_command_has_agent(c, name)) {
        chat_command_put_agents(c, &names);
        chat_show_aside(&c->show, "there is no agent \"%s\"; there are: %s", name, names.bytes);
        buf_done(&names);
        return;
    }
    free(c->agent);
    c->agent = xstrdup(str_of(name));
    chat_show_aside(&c->show, "· the next question is for %s", name);
}

static void obey_agents(struct chat *c, const char *word)
{
    (void)word;
    chat_show_aside(&c->show, "%s", c->agents.len ? c->agents.bytes : "there are none");
}

static void obey_new(struct chat *c, const char *word)
{
    (void)word;
    choose_conversation(c, STR_NULL);
    chat_show_aside(&c->show, "· a new conversation");
}

static void obey_cancel(struct chat *c, const char *word)
{
    (void)word;
    if (!chat_talk_stop(c))
        chat_show_aside(&c->show, c->is_stopping ? "· it stops already" : "· nothing runs");
}

static void obey_attach(struct chat *c, const char *word)
{
    char *path = chat_path_read(word);
    chat_attach(c, path);
    free(path);
}

static void obey_detach(struct chat *c, const char *word)
{
    (void)word;
    chat_show_aside(&c->show,
                    c->n_attached > 0 ? "· nothing is attached now" : "· nothing was attached");
    chat_attach_drop(c);
}

static void obey_save(struct chat *c, const char *words)
{
    if (*words)
        chat_save(c, words);
    else
        chat_save_list(c);
}

static void obey_quit(struct chat *c, const char *word)
{
    (void)word;
    chat_talk_leave(c);
}

static void obey_help(struct chat *c, const char *word);

/* during: obeyed while an answer comes; the others wait for its end. */
static const struct command {
    const char *verb;
    bool has_word, word_is_optional, during;
    void (*obey)(struct chat *c, const char *word);
    const char *help;
} commands[] = {
    {"/agents", false, false, true, obey_agents, "/agents              lists the agents"},
    {"/agent", true, false, true, obey_agent, "/agent NAME          asks that agent from now on"},
    {"/new", false, false, false, obey_new, "/new                 begins another conversation"},
    {"/resume", true, true, false, obey_resume,
     "/resume              lists the last conversations\n"
     "/resume CONVERSATION goes on in that one\n"
     "/resume CONVERSATION/TASK\n"
     "                     shows that task"},
    {"/attach", true, false, false, obey_attach,
     "/attach PATH         sends a file along with the next question"},
    {"/detach", false, false, false, obey_detach,
     "/detach              takes the attached files back"},
    {"/save", true, true, true, obey_save,
     "/save                lists the files of this talk\n"
     "/save NUMBER [PATH]  saves one of them"},
    {"/cancel", false, false, true, obey_cancel, "/cancel, Ctrl-C      stops the answer"},
    {"/quit", false, false, true, obey_quit,
     "/quit, Ctrl-D        leaves, and so does Ctrl-C twice; a running task continues"},
    {"/help", false, false, true, obey_help, "/help                shows this"},
};

static void obey_help(struct chat *c, const char *word)
{
    struct buf all = {0};
    (void)word;
    for (size_t i = 0; i < countof(commands); i++)
        buf_putf(&all, "%s%s", i ? "\n" : "", commands[i].help);
    chat_show_aside(
        &c->show,
        "%s\nTab completes, Alt-Enter begins a new line, and what you type during an answer "
        "is asked when it has ended.",
        all.bytes);
    buf_done(&all);
}

/* --- which one -------------------------------------------------------------------------------- */

static const struct command *find_command(struct str verb)
{
    for (size_t i = 0; i < countof(commands); i++)
        if (str_eq(verb, str_of(commands[i].verb)))
            return &commands[i];
    return NULL;
}

static struct str verb_of(const char *line)
{
    return (struct str){line, strcspn(line, " ")};
}

enum chat_command chat_command_of(const char *line)
{
    size_t n = line[0] == '/';
    while (isalpha((unsigned char)line[n]))
        n++;
    /* Not a path, which has a further slash or a dot, and not a text of several lines. */
    bool is_meant = line[0] == '/' && (!line[n] || line[n] == ' ') && !strchr(line, '\n');
    const struct command *command = is_meant ? find_command(verb_of(line)) : NULL;
    if (command)
        return command->during ? CHAT_COMMAND_NOW : CHAT_COMMAND_LATER;
    return is_meant ? CHAT_COMMAND_UNKNOWN : CHAT_COMMAND_NONE;
}

void chat_command_obey(struct chat *c, const char *line)
{
    struct str verb = verb_of(line);
    const struct command *command = find_command(verb);
    char *word = xstrdup(str_trim(str_of(line + verb.n)));
    bool fits = command && (command->has_word ? *word || command->word_is_optional : !*word);
    if (fits)
        command->obey(c, word);
    else if (command)
        chat_show_aside(&c->show, "it is used like this:\n%s", command->help);
    else
        chat_show_aside(&c->show,
                        "there is no command %.*s, and /help lists those that there are; with a "
                        "blank before it, it is asked as it is",
                        (int)verb.n, verb.p);
    free(word);
}

/* --- Tab -------------------------------------------------------------------------------------- */

/* The words that the begun one may become. */
struct completion {
    struct str begun;
    struct buf common; /* the beginning of all of them */
    struct buf words;  /* one a line */
    size_t n;
    bool are_paths; /* shown by their last segments */
};

static void may_become(void *arg, struct str word)
{
    struct completion *its = arg;
    size_t n = 0, shown = 0;
    if (!str_begins(word, its->begun))
        return;
    while (n < word.n && n < its->common.len && word.p[n] == its->common.bytes[n])
        n++;
    if (its->n == 0)
        buf_putstr(&its->common, word);
    else
        its->common.len = utf8_whole((struct str){its->common.bytes, n});
    for (size_t i = 0; its->are_paths && i + 1 < word.n; i++)
        shown = word.p[i] == '/' ? i + 1 : shown;
    if (its->n++ < COMPLETIONS)
        buf_putf(&its->words, "%s%.*s", its->n > 1 ? "\n" : "", (int)(word.n - shown),
                 word.p + shown);
}

/* The length of what stands before a path: "/attach " or "/save NUMBER "; 0 in other lines. */
static size_t before_path(struct str line)
{
    const struct str attach = STR("/attach "), save = STR("/save ");
    size_t at = save.n;
    if (str_begins(line, attach))
        return attach.n;
    if (!str_begins(line, save))
        return 0;
    while (at < line.n && line.p[at] != ' ')
        at++;
    return at > save.n && at < line.n ? at + 1 : 0;
}

static void complete_agents(const struct chat *c, struct completion *its)
{
    const char *at = c->agents.len ? c->agents.bytes : "";
    for (struct str name = next_agent(&at); name.n > 0; name = next_agent(&at))
        may_become(its, name);
}

void chat_command_complete(struct chat *c)
{
    struct str line = buf_str(&c->edit.line);
    struct completion its = {.begun = line};
    size_t path_at = before_path(line);
    if (line.n == 0 || line.p[0] != '/' || c->edit.at != line.n)
        return;
    if (path_at > 0) {
        its.begun = str_from(line, path_at);
        its.are_paths = true;
        chat_path_complete(its.begun, may_become, &its);
    } else if (str_begins(line, STR("/agent "))) {
        its.begun = str_from(line, strlen("/agent "));
        complete_agents(c, &its);
    } else {
        for (size_t i = 0; i < countof(commands); i++)
            may_become(&its, str_of(commands[i].verb));
    }
    if (its.n > 1 && its.common.len == its.begun.n)
        chat_show_aside(&c->show, its.n > COMPLETIONS ? "%s\n…" : "%s", its.words.bytes);
    else if (its.n > 0)
        chat_edit_insert(&c->edit, str_from(buf_str(&its.common), its.begun.n));
    buf_done(&its.common);
    buf_done(&its.words);
}
