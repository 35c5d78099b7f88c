/* task_parts -- what the parts of a task share with each other, with the start and with the turn.
 *
 * Shape:    task.c has the life and the end, task_work.c what it needs from its start on,
 *           task_record.c the record; task_run.c starts a run, task_resume.c goes on with one after
 *           a restart, for which task_keep.c keeps notes; task_line.c takes its lines, task_stop.c
 *           stops it; task_family.c has its relatives, task_tool.c its calls, task_inbox.c its
 *           messages, task_question.c its questions, task_budget.c its budget.
 * Thread:   loop.
 */
#ifndef CORE_TASK_PARTS_H
#define CORE_TASK_PARTS_H

#include "core/task.h"

struct task_work *task_work(struct task *t); /* allocated on first use */
void task_free_work(struct task *t);
struct task_outcome *task_outcome(struct task *t);
void task_stage(struct task *t); /* stages the row as it is now */
/* The end (struct op) of a change of the row, and of any op: false when it no longer counts. */
void task_state_done(const struct op *op, int status);
bool task_op_counts(struct task *t);
uint64_t task_event(struct task *t, enum event_type event, struct str data);
void task_try_start(struct task *t); /* when slots and the conversation's order allow it */
/* A task has ended: waiting ones are checked once, at the end of the turn … */
void tasks_may_start(struct conversation *c);
void tasks_start_next(struct conversation *c); /* … by this, which takes that reference */
/* Starts the agent, once task.started is committed and the history is read. */
void task_run(struct task *t);
void task_stop_run(struct task *t); /* leaves the run, in whatever state it is */
void task_stop(struct task *t, enum task_error why, const char *text);
void task_on_stop(void *task, struct str text); /* from the adapter (struct run_events) */
void task_init_clocks(struct task_work *w);
void task_arm_clocks(struct task *t);
void task_stand_clocks(struct task *t, bool stand);
extern const struct run_events task_run_events;
/* From the adapter (struct run_events): a raw line, or a decoded one. */
bool task_on_line(void *task, struct str text);
bool task_on_event(void *task, const struct agent_line *line);
/* All that it says, without the secrets of the configuration (task_text.c): a token or a thought,
 * of which the end may be held back until more comes; what was held back, before anything else; an
 * event's data; a text, in scratch if it had any. */
void task_say_text(struct task *t, const struct agent_line *line);
void task_say_held(struct task *t);
void task_event_hidden(struct task *t, enum event_type event, struct str data);
struct str task_hide(const struct hub *h, struct str text, struct buf *scratch);
void task_free_text(struct task_work *w);
/* Notes what is held back, when what the run said until now is not read again; and at a start. */
void task_note_held(struct task *t);
void task_restore_held(struct task *t, uint64_t number, struct str bytes);
void task_drop_held(struct task *t);              /* its run says it anew */
struct str task_held_token(const struct task *t); /* "" for none */
/* Whether an event with that many bytes of data would exceed MAX_EVENT_LINE: then the task fails,
 * and the stream stays whole. what names the event, or a call. */
bool task_line_is_too_long(struct task *t, const char *what, size_t data_bytes);
void task_unpause(struct task *t);
/* Begins {"type":"…","call_id":"…" and leaves it open; ending it hands it to the agent. */
void task_begin_answer(struct buf *out, const char *type, struct str call_id);
void task_end_answer(struct task *t, struct buf *line);
void task_answer_error(struct task *t, struct str call_id, enum error e, const char *message);
void task_call_tool(struct task *t, const struct agent_line *line);
void task_call_file(struct task *t, const struct agent_line *line);
/* The file with the file_id of data lives as long as the task does. */
void task_name_file(struct task *t, struct str data);
void task_stop_tools(struct task *t);  /* nobody waits for them any more */
void task_leave_tools(struct task *t); /* the same, and what they began goes on */
void task_begin_tools(struct task *t); /* those that waited for its budget */
void task_resume_tools(struct task *t);
void task_reap_tools(struct hub *h);

/* A restart (task_resume.c).  What the store has of a task that ran, in order: its notes with the
 * number they have there, each after the events before it. */
void task_past_begin(struct task *t, uint64_t mark);
void task_past_note(struct task *t, uint64_t number, uint64_t seq, struct str bytes);
void task_past_event(struct task *t, const struct event_parts *event);
void task_past_is_unreadable(struct task *t);
void task_past_calls(struct task *t, struct str note); /* NOTE_CALLS */
void task_past_stop(struct task *t, struct str note);  /* NOTE_STOPPED with a reason */
void task_past_call(struct task *t, const struct event_parts *event);
/* All of it was told: stages task.resumed, or the end. */
void task_past_end(struct task *t);
void task_free_past(struct task *t);
/* In PHASE_RESUMING: begins the run, and does what comes right after that. */
void task_resume(struct task *t);
struct run *task_resume_run(struct task *t, const struct run_spec *spec, char *ret_error);
void task_resumed(struct task *t);
void task_on_anew(void *task); /* from the adapter (struct run_events) */

/* Memory of a run (task_keep.c), from the adapter (struct run_events). */
void task_on_note(void *task, bool standing, struct str bytes);
bool task_on_mark(void *task, uint64_t mark);
void task_when_committed(void *task);
void task_note(struct task *t, uint64_t number, struct str bytes);
void task_on_unknown(void *task, struct str tool);
/* A call of the agent that waited for the store is answered. */
void task_lookup_over(struct task *t);

/* Relatives (task_family.c): calls of an agent.  Each is answered once, at once or when the store
 * has told what became of a task that has ended. */
void task_spawn(struct task *t, const struct agent_line *line);
void task_send_to_relative(struct task *t, const struct agent_line *line);
void task_cancel_child(struct task *t, const struct agent_line *line);
bool task_has_children(const struct task *t); /* live ones */
/* The end of a child, in the batch of that end. */
void task_tell_parent(struct task *t, const struct task_record *staged);

/* The inbox (task_inbox.c). */
/* The answer to a call or a question; never lost silently. */
void task_answer(struct task *t, struct str line);
void task_deliver(struct task *t);                 /* gives committed lines to the agent */
void task_on_taken(void *task, uint64_t position); /* from the adapter */
uint64_t task_on_say(void *task, struct str line); /* the same */
void task_close_inbox(struct task *t);             /* at the end: outcome.undelivered */
/* The last position of a line for the agent, and of one that it is known to have. */
uint64_t task_inbox_position(const struct task *t);
void task_inbox_skip(struct task *t, uint64_t position);
void task_inbox_rest(struct task *t); /* offers nothing again by itself */
void task_free_inbox(struct task *t);
void task_restore_message(struct task *t, uint64_t position, struct str line); /* at a start */

/* Its webhooks (task_hook.c). */
/* Stages one, in place of one with the same id; NULL id: a new one. NULL, or why not. */
const char *task_add_hook(struct task *t, struct str id, struct str json, const char **ret_id);
void task_remove_hook(struct task *t, struct str id);
void task_put_hooks(const struct task *t, struct buf *out); /* as the elements of an array */
void hook_put(struct buf *out, const char *id, struct str json);
/* Stages what they are told; type is that of the message. */
void task_tell_hooks(struct task *t, const char *type, const struct task_record *rec);
void task_free_hooks(struct task *t);
/* At a start: whose a held row is, -1 for nobody's; and the row. */
int64_t hook_task_key(struct hub *h, struct str body);
void task_restore_hook(struct task *t, const struct outbox_record *row);

/* Its budget (task_budget.c), of an agent that does not ask by itself.  While its question is open,
 * its tools wait, and the agent is not read. */
void task_budget_begin(struct task *t, struct str metadata);
/* Counts a line before it is taken. */
void task_budget_count(struct task *t, const struct agent_line *line);
/* Its clocks go on. */
void task_budget_review(struct task *t);
bool task_budget_holds(const struct task *t);
void task_budget_stop(struct task *t);   /* it asks no more … */
void task_budget_let_go(struct task *t); /* … and is read, until it ends */
void task_budget_free(struct task_work *w);

/* Questions (task_question.c). */
void task_ask(struct task *t, const struct agent_line *line);
/* The approval of a call, which the gateway itself asks for; false: the task fails because of
 * it. */
struct approval {
    const struct approval_question *question;
    struct str call_id, tool, arguments;
    void (*answered)(void *arg, struct str answer);
    void *arg;
};
bool task_ask_approval(struct task *t, const struct approval *a) MUST_USE;
/* After a restart: the same for a question that is open.  False: the call has none. */
bool task_await_approval(struct task *t, struct str call_id,
                         void (*answered)(void *arg, struct str answer), void *arg);
/* The same for any question of the gateway's with yes and no: data of its input_required, with that
 * id. */
struct own_question {
    struct str id, data;
    struct str option_ids; /* as in struct question; n 0: only yes and no */
    void (*answered)(void *arg, struct str answer);
    void *arg;
};
bool task_ask_own(struct task *t, const struct own_question *own) MUST_USE;
bool task_has_asked(const struct task *t, struct str input_id);
/* Such a question that a restart found open; data is not needed. */
void task_ask_still(struct task *t, const struct own_question *own);
void task_close_questions(struct task *t); /* at the end: outcome.answers */
void task_free_questions(struct task *t);
void task_on_moot(void *arg, struct str input_id); /* from the adapter */
bool task_is_allowed(void *arg, struct str key);   /* the same, and task_tool.c */
void task_allow(void *arg, struct str key);
/* At a start: an input_required or input_received in the task's events. */
void task_restore_question(struct task *t, const struct event_parts *line);
/* The run is there again, and the askers with it: they are told what was answered before that. */
void task_hear_answers(struct task *t);
/* Before that: whether the budget has asked this, and whether a call waits for an approval. */
bool task_is_budget_question(const struct task *t, struct str input_id);
bool task_awaits_approval(const struct task *t, struct str call_id);
/* The run is there again: open questions may expire. */
void task_arm_questions(struct task *t);
void task_disarm_questions(struct task *t);
/* waiting_for is the oldest open question; stages that, and the clocks stand while there is one. */
void task_review_questions(struct task *t);

/* --- at a start (restore_task.c) -------------------------------------------------------------- */

/* Reads a task that was adopted, with its tail (taken; NULL: none), and lets it go on or end; done
 * comes once, maybe from inside.  *failed not 0: another one could not be read, and this one is
 * left as it is.  STORE_CORRUPT: its tail ends before its head.  STORE_REFUSED, of a store that
 * several share: the store refuses a question for now, and done will come once more, late. */
typedef void (*restore_fn)(void *arg, struct task *t, int status, bool late);
void restore_task(struct task *t, struct block *tail, bool bare, const int *failed, restore_fn done,
                  void *arg);

#endif
