#include "gateway/agents/exec_kept.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/map.h"
#include "gateway/agents/exec_run.h"
#include "gateway/base/fault.h"
#include "gateway/processes/holder.h"
#include "gateway/processes/spool.h"

#define SUFFIX ".live"
#define WAKE_MS 200 /* then a holder that has not answered may be stopped */

/* A task of a kept program. */
struct kept_task {
    struct map_node node;
    char name[HOLDER_NAME];
    int listener;            /* prepared, and not started; -1 */
    enum holder_state found; /* what an earlier gateway has left */
    int control;             /* of that, before its hello; -1 */
    bool has_program;        /* … and what it says */
    struct supervisor program;
    bool claimed; /* a task has asked for it */
    struct run *run;
};

struct kept {
    struct map tasks;
    int folder;
    int64_t patience_ends; /* of uv_hrtime, in ms */
};

static struct map_key key_of_kept(const struct map_node *node)
{
    const struct kept_task *t = container_of(node, const struct kept_task, node);
    return (struct map_key){.part = {str_of(t->name)}};
}

static struct kept_task *kept_task_of(const struct kept *k, struct str task_id)
{
    struct map_node *node = map_find(&k->tasks, (struct map_key){.part = {task_id}});
    return node ? container_of(node, struct kept_task, node) : NULL;
}

static struct kept_task *kept_task_new(struct kept *k, struct str task_id)
{
    struct kept_task *t = xcalloc(sizeof *t);
    ASSERT(task_id.n < sizeof t->name);
    memcpy(t->name, task_id.p, task_id.n);
    t->listener = t->control = -1;
    map_put(&k->tasks, &t->node);
    return t;
}

static int64_t kept_now_ms(void)
{
    return (int64_t)(uv_hrtime() / 1000000);
}

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* The program, if there is one here, is left as it is. */
static void kept_task_free(struct kept *k, struct kept_task *t)
{
    map_remove(&k->tasks, &t->node);
    close_one(&t->listener);
    close_one(&t->control);
    if (t->has_program)
        supervisor_close(&t->program);
    free(t);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void find_one(struct kept *k, const char *file)
{
    size_t n = strlen(file), suffix = strlen(SUFFIX);
    bool is_live = n > suffix && strcmp(file + n - suffix, SUFFIX) == 0;
    struct str name = {file, is_live ? n - suffix : n};
    if (file[0] == '.' || name.n >= HOLDER_NAME || kept_task_of(k, name))
        return;
    struct kept_task *t = kept_task_new(k, name);
    t->found = holder_find(k->folder, t->name, &t->control);
}

struct kept *kept_open(const char *data, char *ret_why)
{
    static const uint64_t secret[2] = {0}; /* the names are our own */
    const char *why = spool_probe();
    int folder = why ? -1 : holder_open_folder(data);
    if (folder < 0) {
        snprintf(ret_why, 256, "%s", why ? why : strerror(errno));
        return NULL;
    }
    struct kept *k = xcalloc(sizeof *k);
    map_init(&k->tasks, secret, key_of_kept);
    k->folder = folder;
    k->patience_ends = kept_now_ms() + KEPT_PATIENCE_MS;
    int copy = dup(folder);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir));)
        find_one(k, e->d_name);
    if (dir)
        closedir(dir);
    return k;
}

static void close_task(struct map_node *node, void *arg)
{
    kept_task_free(arg, container_of(node, struct kept_task, node));
}

void kept_close(struct kept *k)
{
    if (!k)
        return;
    map_each(&k->tasks, close_task, k);
    map_done(&k->tasks);
    close(k->folder);
    free(k);
}

/* --- new tasks -------------------------------------------------------------------------------- */

bool kept_prepare(struct kept *k, struct str task_id, char *ret_error)
{
    struct kept_task *t = kept_task_of(k, task_id);
    if (!t)
        t = kept_task_new(k, task_id);
    t->claimed = true;
    close_one(&t->listener);
    t->listener = holder_bind(k->folder, t->name);
    FAULT_DIE(BIND);
    if (t->listener < 0)
        snprintf(ret_error, 256, "the program's socket cannot be made: %s", strerror(errno));
    return t->listener >= 0;
}

bool kept_hold(struct kept *k, struct str task_id, struct hold *ret)
{
    struct kept_task *t = kept_task_of(k, task_id);
    if (!t || t->listener < 0)
        return false;
    *ret = (struct hold){.folder = k->folder, .name = t->name, .listener = t->listener};
    return true;
}

void kept_started(struct kept *k, struct str task_id, struct run *run)
{
    struct kept_task *t = kept_task_of(k, task_id);
    if (!t)
        return;
    close_one(&t->listener);
    t->run = run;
}

/* --- those of an earlier gateway -------------------------------------------------------------- */

static bool wait_for_hello(const struct kept_task *t, int most_ms)
{
    struct pollfd p = {.fd = t->control, .events = POLLIN};
    return poll(&p, 1, most_ms) > 0;
}

/* True: its program is here.  One that is not understood is told to end, in words that any version
 * knows. */
static bool hear_hello(const struct kept *k, struct kept_task *t)
{
    enum holder_answer answer = HOLDER_WAITS;
    bool is_woken = false;
    if (t->has_program || t->control < 0)
        return t->has_program;
    while ((answer = holder_receive(t->control, &t->program)) == HOLDER_WAITS) {
        int64_t left = k->patience_ends - kept_now_ms();
        if (left <= 0)
            break;
        if (wait_for_hello(t, is_woken || left < WAKE_MS ? (int)left : WAKE_MS) || is_woken)
            continue;
        holder_wake(t->name);
        is_woken = true;
    }
    t->has_program = answer == HOLDER_FOUND;
    if (!t->has_program) {
        supervisor_send(t->control, SUPERVISOR_QUIT);
        close_one(&t->control);
    }
    t->control = -1; /* it is the program's */
    return t->has_program;
}

static void end_program(struct kept_task *t)
{
    supervisor_send(t->program.control, SUPERVISOR_QUIT);
    supervisor_wake(t->program.pidfd);
    supervisor_close(&t->program);
    t->has_program = false;
}

static enum kept_state is_gone(char ret_why[256], const char *why)
{
    snprintf(ret_why, 256, "%s", why);
    return KEPT_GONE;
}

static bool is_configured_so(const char *of_page, const char *digest)
{
    return (of_page[0] == digest[0] || of_page[0] == KEPT_SECOND) &&
           strcmp(of_page + 1, digest + 1) == 0;
}

enum kept_state kept_find(struct kept *k, struct str task_id, const char *digest,
                          uint64_t *ret_last, char ret_why[256])
{
    struct kept_task *t = kept_task_of(k, task_id);
    if (!t)
        return is_gone(ret_why, "the gateway was restarted, and nothing is left of the program");
    t->claimed = true;
    if (t->found == HOLDER_NEVER_RAN)
        return KEPT_NEVER_RAN;
    if (t->found == HOLDER_UNREACHABLE)
        return is_gone(ret_why, "the gateway was restarted, and the program cannot be reached");
    if (t->found != HOLDER_LIVES)
        return is_gone(ret_why, "the gateway was restarted, and the program had ended, or was "
                                "killed, while there was none (keep_s)");
    if (!hear_hello(k, t))
        return is_gone(ret_why, "the gateway was restarted, and the program is kept in a way that "
                                "this one does not know");
    FAULT_DIE(FOUND);
    *ret_last = hold_page_newest(t->program.page).number - t->program.page->from_line;
    if (is_configured_so(t->program.page->digest, digest))
        return KEPT_LIVES;
    end_program(t);
    return is_gone(ret_why, "the gateway was restarted, and the agent's command, env or cwd has "
                            "changed");
}

bool kept_take(struct kept *k, struct str task_id, bool second, struct supervisor *ret)
{
    struct kept_task *t = kept_task_of(k, task_id);
    if (!t || !t->has_program)
        return false;
    if (second && t->program.page->digest[0] != KEPT_SECOND) {
        end_program(t);
        return false;
    }
    *ret = t->program;
    t->has_program = false;
    return true;
}

/* Bound first: between the two steps a start finds the first one, and then none that has run. */
bool kept_replace(struct kept *k, struct str task_id, char *ret_error)
{
    struct kept_task *t = kept_task_of(k, task_id);
    if (!t || !kept_prepare(k, task_id, ret_error))
        return false;
    holder_unlink_live(k->folder, t->name);
    if (t->run)
        exec_run_settle(t->run);
    if (t->has_program)
        end_program(t);
    return true;
}

bool kept_move(struct kept *k, struct str from, struct str to)
{
    struct kept_task *old = kept_task_of(k, from), *t = kept_task_of(k, to);
    if (!old || !old->run || !t || t->listener < 0 ||
        !holder_rename_live(k->folder, old->name, t->name))
        return false;
    FAULT_DIE(MOVED);
    holder_unlink_bound(k->folder, t->name);
    close_one(&t->listener);
    t->run = old->run;
    kept_task_free(k, old);
    return true;
}

/* --- ends ------------------------------------------------------------------------------------- */

struct run *kept_run(const struct kept *k, struct str task_id)
{
    const struct kept_task *t = kept_task_of(k, task_id);
    return t ? t->run : NULL;
}

/* The socket goes last: a holder that nobody finds would stay for all of its time. */
size_t kept_count(const struct kept *k)
{
    return k->tasks.n;
}

void kept_settle(struct kept *k, struct str task_id)
{
    struct kept_task *t = kept_task_of(k, task_id);
    if (!t)
        return;
    if (t->has_program)
        end_program(t);
    else if (t->control >= 0) /* nobody has asked for it: it is heard even before its hello */
        supervisor_send(t->control, SUPERVISOR_QUIT);
    holder_unlink(k->folder, t->name);
    FAULT_DIE(UNLINKED);
    kept_task_free(k, t);
}

void kept_forget(struct kept *k, struct str task_id)
{
    struct kept_task *t = kept_task_of(k, task_id);
    if (t)
        t->run = NULL;
}

struct sweep {
    struct kept *kept;
    size_t n;
};

static void sweep_one(struct map_node *node, void *arg)
{
    struct sweep *s = arg;
    struct kept_task *t = container_of(node, struct kept_task, node);
    if (t->claimed)
        return;
    if (hear_hello(s->kept, t))
        end_program(t);
    holder_unlink(s->kept->folder, t->name);
    kept_task_free(s->kept, t);
    s->n++;
}

size_t kept_sweep(struct kept *k)
{
    struct sweep s = {.kept = k};
    map_each(&k->tasks, sweep_one, &s);
    return s.n;
}
