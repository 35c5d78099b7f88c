/**
 * tasks.js -- what tasks have said, read from their events, and the resuming of their streams.
 *
 * A task's events are dense: 1, 2, 3 …  The last one taken is what a resume names, so that a text
 * grows by each piece exactly once, over any number of connections.
 */

const TERMINAL = new Set(["completed", "failed", "cancelled"]);

/** @typedef {{call_id: string, name: string, arguments?: object, output?: string, is_error?: boolean}} Tool */
/** @typedef {{input_id: string, kind: string, prompt: string, tool?: string, arguments?: object,
 *             closed: boolean, answer?: any}} Input */

export class Task {
  /** The newest summary from a reply or a push. */
  summary = {};
  /** A resume is on its way: events that come before its reply belong to the cursor it moves. */
  resuming = false;
  /** It was read from the start again; once is enough. */
  restarted = false;
  /** Grows when what was said is no longer what was shown plus more. */
  epoch = 0;

  /** @param {string} id */
  constructor(id) {
    this.id = id;
    this.reset();
  }

  /** Back to before the first event. */
  reset() {
    this.last = 0;
    this.pruned = false; // the first events are no longer kept
    this.started = false;
    this.input = null;
    this.answer = "";
    this.thinking = "";
    this.progress = null;
    this.note = "";
    /** @type {Tool[]} */
    this.tools = [];
    /** @type {Input[]} */
    this.inputs = [];
    /** @type {string[]} */
    this.inbox = [];
    /** The terminal event's data, once it has come. @type {object|null} */
    this.ending = null;
    this.epoch++;
  }

  /** Whether its events, rather than the conversation's messages, tell what it said. */
  get heard() {
    return this.last > 0;
  }

  /** The state as far as the text shown goes: it does not run ahead of the events. */
  get status() {
    if (this.ending) return this.ending.status;
    if (this.heard) return this.started ? "running" : "pending";
    return this.summary.status ?? "pending";
  }

  get live() {
    return !TERMINAL.has(this.status);
  }

  get error() {
    return this.ending ? this.ending.error : this.summary.error;
  }

  get cancelRequested() {
    return Boolean(this.summary.cancel_requested_at);
  }

  /** Takes one event line, whose turn it must be. */
  take({ seq, event, data }) {
    this.last = seq;
    Task.#take[event]?.(this, data);
  }

  static #take = {
    "task.created": (task, data) => {
      task.input = data.input;
    },
    "task.started": (task) => {
      task.started = true;
    },
    thinking: (task, data) => {
      task.thinking += data.text;
    },
    token: (task, data) => {
      task.answer += data.text;
    },
    tool_call: (task, data) => {
      task.tools.push({ ...data });
    },
    tool_result: (task, data) => {
      const call = task.tools.find((tool) => tool.call_id === data.call_id);
      if (call) Object.assign(call, data);
      else task.tools.push({ ...data });
    },
    progress: (task, data) => {
      task.progress = data.progress;
      task.note = data.note ?? "";
    },
    message: (task, data) => {
      task.inbox.push(`${data.from}: ${data.content}`);
    },
    input_required: (task, data) => {
      task.inputs.push({ ...data, closed: false });
    },
    input_received: (task, data) => {
      const input = task.inputs.find((each) => each.input_id === data.input_id);
      if (input) Object.assign(input, { closed: true, answer: data.answer });
    },
    final_answer: (task, data) => {
      task.#sayInstead(data.output);
    },
    "task.completed": (task, data) => {
      if (task.pruned) task.#sayInstead(data.output ?? "");
      task.#end({ ...data, status: "completed" });
    },
    "task.failed": (task, data) => {
      if (task.pruned) task.#sayInstead(data.output ?? "");
      task.#end(data);
    },
  };

  #sayInstead(text) {
    if (text === this.answer) return;
    this.answer = text;
    this.epoch++;
  }

  #end(data) {
    this.ending = data;
    for (const input of this.inputs) input.closed = true;
  }
}

export class Tasks {
  /** @type {Map<string, Task>} */
  #tasks = new Map();
  #send;
  #changed;

  /**
   * @param {(request: object) => boolean} send
   * @param {(task: Task) => void} changed
   */
  constructor(send, changed) {
    this.#send = send;
    this.#changed = changed;
  }

  /** @returns {Iterable<Task>} in no order */
  all() {
    return this.#tasks.values();
  }

  get(id) {
    return this.#tasks.get(id);
  }

  clear() {
    this.#tasks.clear();
  }

  /** Takes a task's summary. */
  meet(summary) {
    const task = this.#find(summary.task_id);
    task.summary = summary;
    this.#changed(task);
    return task;
  }

  #find(id) {
    let task = this.#tasks.get(id);
    if (!task) this.#tasks.set(id, (task = new Task(id)));
    return task;
  }

  /** What `started` says; a repeated one is streamed from the start again. */
  started({ task: summary, repeated }) {
    const task = this.meet(summary);
    if (repeated) task.reset();
    task.resuming = false;
    return task;
  }

  /** Asks for all events that this page does not have yet. */
  resume(task) {
    task.resuming = this.#send({
      type: "resume",
      task_id: task.id,
      conversation_id: task.summary.conversation_id,
      after: task.last,
      coalesce: true,
    });
  }

  /** Starts again from the first event. */
  restart(task) {
    task.reset();
    this.#changed(task);
    this.resume(task);
  }

  resumed({ task: summary, after, first }) {
    const task = this.meet(summary);
    task.resuming = false;
    if (first === undefined || first <= after + 1) return;
    task.reset();
    task.pruned = true;
    task.started = true;
    task.last = first - 1;
  }

  caughtUp({ task_id }) {
    const task = this.get(task_id);
    if (!task || task.ending || !TERMINAL.has(task.summary.status)) return;
    // It has ended, nothing is left to send, and yet its end was never seen: not the events we know.
    if (!task.restarted) this.restart(task);
    task.restarted = true;
  }

  /** An error that answers a resume. */
  refused({ task_id }, error) {
    const task = this.get(task_id);
    if (!task) return;
    task.resuming = false;
    if (error.code === "out_of_range") this.restart(task);
    else if (error.retry_after_ms) setTimeout(() => this.resume(task), error.retry_after_ms);
  }

  event(line) {
    const known = this.get(line.task_id);
    const first = line.from ?? line.seq;
    if (!known && first !== 1) return; // of a conversation that was left meanwhile
    const task = known ?? this.#find(line.task_id);
    if (task.resuming || line.seq <= task.last) return;
    if (first !== task.last + 1) {
      console.error(`task ${task.id}: event ${first} came after ${task.last}`);
      return this.resume(task);
    }
    task.take(line);
    this.#changed(task);
  }
}
