/* Reports about a process: its end, once, and lines that were watched for. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/notice.h"
#include "gateway/base/log.h"
#include "gateway/processes/processes_private.h"

void process_put_command(const struct process *p, struct buf *out)
{
    ASSERT(p->spec.command);
    struct str command = str_of(p->spec.command);
    size_t n = utf8_chars(command, PROCESS_COMMAND_CHARS);
    buf_put(out, command.p, n);
    if (n < command.n)
        buf_puts(out, "\xe2\x80\xa6"); /* an ellipsis */
}

static void put_exit(int code, struct buf *out)
{
    const char *name = code < 0 ? sigabbrev_np(-code) : NULL;
    if (code == 0)
        buf_puts(out, "has completed with exit status 0");
    else if (code > 0)
        buf_putf(out, "has exited with status %d", code);
    else
        buf_putf(out, "was ended by signal %d%s%s%s", -code, name ? " (SIG" : "", name ? name : "",
                 name ? ")" : "");
}

void process_put_end(const struct process *p, struct buf *out)
{
    switch (p->status.state) {
    case KEEP_RUNNING: buf_puts(out, "runs"); return;
    case KEEP_EXITED: put_exit(p->status.exit_code, out); return;
    case KEEP_KILLED:
        if (p->status.error[0])
            buf_putf(out, "was killed: %s", p->status.error);
        else
            buf_puts(out, "was killed on request (SIGTERM)");
        return;
    case KEEP_TIMED_OUT: buf_puts(out, "exceeded its time limit"); return;
    case KEEP_FAILED: buf_putf(out, "could not start: %s", p->status.error); return;
    case KEEP_LOST: buf_puts(out, "is lost: nobody knows how it ended"); return;
    }
    UNREACHABLE();
}

void process_fill_source(const struct process *p, struct notice_source *source)
{
    source->owner = str_of(p->spec.owner);
    source->conversation_id = str_of(p->spec.conversation_id);
    source->task_id = str_of(p->spec.task_id);
    source->agent = str_of(p->spec.agent);
}

static void process_notice_put_text(const struct process *p, struct buf *out)
{
    struct buf tail = {0};
    buf_putf(out, "Background process %s ", p->id);
    process_put_end(p, out);
    buf_puts(out, ". Its command: ");
    process_put_command(p, out);
    bool more = process_text(p, NOTICE_OUTPUT_CHARS, &tail);
    if (tail.len)
        buf_puts(out, more ? "\nThe end of its output:\n" : "\nIts output:\n");
    buf_putstr(out, buf_str(&tail));
    buf_done(&tail);
}

struct told *process_told(const struct process *p)
{
    struct told *t = xcalloc(sizeof *t);
    t->all = p->all;
    snprintf(t->id, sizeof t->id, "%s", p->id);
    return t;
}

struct process *process_of_told(const struct told *t)
{
    if (t->all->o.hub->closing)
        return NULL;
    list_each (it, &t->all->list) {
        struct process *p = list_item(it, struct process, node);
        if (strcmp(p->id, t->id) == 0)
            return p;
    }
    return NULL;
}

static void process_notice_settle(struct process *p)
{
    struct notice_source source = {.key = str_of(p->id)};
    process_fill_source(p, &source);
    notice_settle(p->all->o.hub, &source);
    p->told = TOLD;
}

static void withdraw(struct process *p)
{
    notice_withdraw(p->all->o.hub, str_of(p->spec.owner), str_of(p->spec.conversation_id),
                    str_of(p->id));
}

static void on_told(void *user, int status, int64_t notice_key)
{
    struct told *t = user;
    struct process *p = process_of_told(t);
    (void)notice_key;
    if (p && status == 0) {
        p->told = TOLD;
        if (p->learnt)
            withdraw(p);
    } else if (p && status == STORE_NOT_FOUND) { /* parked: no other conversation may have it */
        p->told = TOLD;
        log_event(LEVEL_WARN, "process", "notice_parked", LOG_TEXT("id", p->id),
                  LOG_TEXT("why", "the task that started it is gone"));
    } else if (p && p->learnt) {
        process_notice_settle(p);
    } else if (p) {
        p->told = UNTOLD;
        processes_arm_tick(p->all, TICK_MS);
    }
    free(t);
}

void process_tell_end(struct process *p)
{
    struct notice_source source = {.key = str_of(p->id),
                                   .kind = p->status.state == KEEP_EXITED && !p->status.exit_code
                                               ? NOTICE_RESULT
                                               : NOTICE_ERROR,
                                   .silent = p->status.state == KEEP_KILLED && !p->status.error[0]};
    struct buf text = {0};
    if (p->told != UNTOLD)
        return;
    p->told = TELLING;
    process_notice_put_text(p, &text);
    process_fill_source(p, &source);
    source.text = buf_str(&text);
    notice_tell(p->all->o.hub, &source, on_told, process_told(p));
    buf_done(&text);
}

void process_learnt(struct process *p)
{
    if (process_runs(p) || !p->spec.background)
        return;
    p->learnt = true;
    if (!p->spec.notify_on_complete)
        return;
    switch (p->told) {
    case UNTOLD: process_notice_settle(p); break;
    case TELLING: break; /* on_told takes care of it */
    case TOLD: withdraw(p); break;
    }
}

void processes_mark(struct processes *all, struct slots *busy)
{
    list_each (it, &all->list) {
        struct process *p = list_item(it, struct process, node);
        if (process_runs(p) || (p->spec.notify_on_complete && p->told != TOLD))
            slots_add(busy, slot_of(str_of(p->spec.owner)));
    }
}
