/**
 * @holdfast/client/testing -- a gateway for the tests of a page: in memory, immediate, and
 * obedient.
 *
 * It keeps conversations and tasks as the protocol requires, numbers events, replays them, and
 * survives cuts.  The test speaks for the agent: `answer` is called for each task, or the test
 * takes the task and sends its events step by step.
 */

import type { Options } from "./client.js";
import { FakeTree } from "./fake-tree.js";
import { MemoryStore } from "./store.js";
import type { Agent, EventData, EventName, Message, Part, TaskError, TaskStatus } from "./wire.js";

type Json = Record<string, any>;

export interface FakeGatewayOptions {
  /** The agents; one "assistant" by default. */
  agents?: Agent[] | undefined;
  /** Called for each task; without it the test speaks for the agent. */
  answer?: ((task: FakeTask) => void | Promise<void>) | undefined;
  owner?: string | undefined;
}

/** An agent's task, from the agent's side. */
export class FakeTask {
  readonly events: Json[] = [];
  status: TaskStatus = "pending";
  /** Aborted when the user has stopped it. */
  readonly signal: AbortSignal;
  /** @internal */ readonly stop = new AbortController();
  /** @internal */ readonly questions = new Map<string, (answer: boolean | string | null) => void>();
  /** @internal */ text = "";
  #told: (task: FakeTask, event: Json) => void;
  #calls = 0;
  #asked = 0;

  /** @internal */
  constructor(
    readonly id: string,
    readonly conversationId: string,
    readonly input: string,
    readonly agent: string,
    readonly type: "chat" | "background",
    told: (task: FakeTask, event: Json) => void,
    /** The question with its files; undefined for a text. */
    readonly parts?: readonly Part[],
    /** @internal The message that it answers once more. */ readonly questionId?: string,
  ) {
    this.#told = told;
    this.signal = this.stop.signal;
  }

  get live(): boolean {
    return this.status === "pending" || this.status === "running";
  }

  /** Any event of the protocol; after its end a task sends nothing. */
  emit<E extends EventName>(event: E, data: EventData[E]): void {
    if (!this.live) return;
    if (event === "task.started") this.status = "running";
    if (event === "task.completed") this.status = "completed";
    if (event === "task.failed") this.status = (data as EventData["task.failed"]).status;
    if (event === "token") this.text += (data as EventData["token"]).text;
    if (event === "task.resumed") this.text = this.#kept("token", (data as EventData["task.resumed"]).retracts);
    const seq = this.events.length + 1;
    const line = { type: "event", task_id: this.id, seq, ts: Date.now(), event, data };
    this.events.push(line);
    this.#told(this, line);
  }

  say(text: string): void {
    this.emit("token", { text });
  }

  think(text: string): void {
    this.emit("thinking", { text });
  }

  /**
   * A tool call, with its result if there is one already; returns a function that sends the result
   * later.
   */
  call(name: string, given: Json = {}, output?: string): (output: string, is_error?: boolean) => void {
    const call_id = `call-${++this.#calls}`;
    this.emit("tool_call", { call_id, name, arguments: given });
    const result = (output: string, is_error = false) =>
      this.emit("tool_result", { call_id, name, output, is_error });
    if (output !== undefined) result(output);
    return result;
  }

  /** Asks the user, and waits; null when the task ends before the answer. */
  ask(prompt: string, more: Partial<EventData["input_required"]> = {}): Promise<boolean | string | null> {
    const input_id = more.input_id ?? `question-${++this.#asked}`;
    const answer = new Promise<boolean | string | null>((resolve) => this.questions.set(input_id, resolve));
    this.emit("input_required", { kind: "question", prompt, ...more, input_id });
    return answer;
  }

  /** The gateway was restarted: the text after that event is withdrawn, all of it by default. */
  restart(retracts = 2): void {
    const attempt = 2 + this.events.filter(({ event }) => event === "task.resumed").length;
    const [text, thinking] = (["token", "thinking"] as const).map((kind) => [...this.#kept(kind, retracts)].length);
    const keep = { text: text!, thinking: thinking! };
    this.emit("task.resumed", { attempt, why: "restart", planned: false, retracts, keep });
  }

  /** @internal Pairs of numbers: the text between them is withdrawn. */
  get retracted(): [number, number][] {
    return this.events.flatMap(({ event, seq, data }) => (event === "task.resumed" ? [[data.retracts ?? seq, seq]] : []));
  }

  /** All text of a kind up to that event that was not withdrawn. */
  #kept(kind: "token" | "thinking", last = Infinity): string {
    const isGone = (seq: number) => this.retracted.some(([after, before]) => seq > after && seq < before);
    const its = this.events.filter(({ event, seq }) => event === kind && seq <= last && !isGone(seq));
    return its.map(({ data }) => data.text).join("");
  }

  complete(output = this.text, result?: unknown): void {
    if (output !== this.text) this.emit("final_answer", { output });
    this.#end("task.completed", { output, ...(result !== undefined && { result }) });
  }

  fail(error: Partial<TaskError> = {}): void {
    const full: TaskError = { code: "agent_error", message: "it broke off", ...error };
    this.#end("task.failed", { status: "failed", error: full, output: this.text });
  }

  /** @internal */
  cancelled(): void {
    this.stop.abort();
    const error: TaskError = { code: "cancelled", message: "cancelled by the user" };
    this.#end("task.failed", { status: "cancelled", error, output: this.text });
  }

  #end<E extends "task.completed" | "task.failed">(event: E, data: EventData[E]): void {
    this.emit(event, data);
    for (const answer of this.questions.values()) answer(null);
  }

  /** @internal */
  get summary(): Json {
    const { id: task_id, conversationId: conversation_id, agent, type, status, events, questionId: question_id } = this;
    const created_at = events[0]?.ts ?? Date.now();
    const ended = this.live ? {} : { completed_at: events.at(-1)!.ts };
    const started_at = events.find(({ event }) => event === "task.started")?.ts;
    return { task_id, conversation_id, agent, type, status, progress: null, head: events.length, created_at, started_at, question_id, ...ended };
  }
}

/** A connection, as the client's WebSocket. */
class FakeSocket {
  readyState = 0;
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  onerror: (() => void) | null = null;
  readonly follows = new Set<string>();
  readonly opened = new Set<string>();
  watches = false;

  constructor(
    readonly gateway: FakeGateway,
    readonly url: string,
  ) {
    queueMicrotask(() => {
      if (this.readyState !== 0) return;
      if (gateway.isDown) return this.lose(1006);
      this.readyState = 1;
      this.onopen?.();
    });
  }

  send(text: string): void {
    const lines = text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
    queueMicrotask(() => lines.forEach((line) => this.readyState === 1 && this.gateway.take(this, line)));
  }

  close(): void {
    this.readyState = 3;
    this.gateway.sockets.delete(this);
  }

  tell(line: Json): void {
    if (this.readyState === 1) this.onmessage?.({ data: JSON.stringify(line) });
  }

  lose(code: number): void {
    this.close();
    this.onclose?.({ code });
  }
}

export class FakeGateway {
  /** All started tasks, the oldest first. */
  readonly tasks: FakeTask[] = [];
  /** Every received request, hello and ping too. */
  readonly requests: Json[] = [];
  /** While true, attempts fail. */
  isDown = false;
  /** @internal */ readonly sockets = new Set<FakeSocket>();
  /** Pass it to `connect` with the rest of `options()`. */
  readonly WebSocket: unknown;

  #options: FakeGatewayOptions;
  #conversations = new Map<string, { title: string; updated_at: number; tree: FakeTree; marks: Json }>();
  #refusals = new Map<string, Json[]>();
  #keys = new Map<string, FakeTask>();
  #waiting: ((task: FakeTask) => void)[] = [];
  #taken = 0;
  #ids = 0;

  constructor(options: FakeGatewayOptions = {}) {
    this.#options = options;
    const gateway = this;
    this.WebSocket = class extends FakeSocket {
      constructor(url: string) {
        super(gateway, url);
        gateway.sockets.add(this);
      }
    };
  }

  /** For `connect("ws://fake/v1/ws", gateway.options())`: a token, nothing shared, nothing kept. */
  options(more: Options = {}): Options {
    const backoff = { baseMs: 1, capMs: 1 };
    return { WebSocket: this.WebSocket, token: "fake", share: false, store: new MemoryStore(), backoff, ...more };
  }

  /** The next task that nobody has taken, once it exists. */
  async task(): Promise<FakeTask> {
    const task = this.tasks[this.#taken++];
    return task ?? new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Cuts all connections. */
  drop(code = 1006): void {
    for (const socket of [...this.sockets]) socket.lose(code);
  }

  /** The next request of this type gets this error: a limit, a sign-in (`hello`), a conflict … */
  refuse(type: string, error: { code: string; message?: string; retry_after_ms?: number }): void {
    const line = { type: "error", message: error.code, ...error };
    this.#refusals.set(type, [...(this.#refusals.get(type) ?? []), line]);
  }

  // ---- requests of a connection

  /** @internal */
  take(socket: FakeSocket, asked: Json): void {
    this.requests.push(asked);
    const { id, type } = asked;
    const refusal = this.#refusals.get(type)?.shift();
    if (refusal) {
      socket.tell({ ...refusal, id });
      return type === "hello" ? socket.lose(4401) : undefined;
    }
    const answer = this.#answers[type];
    if (!answer) return socket.tell({ type: "error", id, code: "unsupported", message: `no such type: ${type}` });
    const reply = answer(asked, socket);
    if (reply instanceof Array) {
      const [first, ...rest] = reply;
      socket.tell({ ...first, id });
      rest.forEach((line) => socket.tell(line));
    } else socket.tell({ ...reply, id });
  }

  #answers: Record<string, (asked: any, socket: FakeSocket) => Json | Json[]> = {
    hello: () => ({ type: "welcome", owner: this.#options.owner ?? "fake", agents: this.#agents, limits: { message_bytes: 65_536 } }),
    ping: () => ({ type: "pong", ts: Date.now() }),
    chat: (asked, socket) => this.#chat(asked, socket),
    resume: ({ task_id, conversation_id, after = 0 }, socket) =>
      this.#with(task_id, conversation_id, (task) => {
        const head = task.events.length;
        if (after > head) return { type: "error", code: "out_of_range", message: "after is beyond the head", head };
        if (task.live) socket.follows.add(task.id);
        const resumed = { type: "resumed", task: { ...task.summary, retracted: task.retracted }, after, head };
        return [resumed, ...task.events.slice(after), { type: "caught_up", task_id, seq: head }];
      }),
    unsubscribe: ({ task_id }, socket) => (socket.follows.delete(task_id), OK),
    cancel: ({ task_id, conversation_id }) =>
      this.#with(task_id, conversation_id, (task) => this.#cancel(task.live ? [task] : [])),
    cancel_all: ({ conversation_id }) => this.#cancel(this.#tasksOf(conversation_id).filter(({ live }) => live)),
    respond: ({ task_id, conversation_id, input_id, answer }) =>
      this.#with(task_id, conversation_id, (task) => {
        const resolve = task.questions.get(input_id);
        if (!resolve) return NOT_FOUND;
        task.questions.delete(input_id);
        setTimeout(() => {
          task.emit("input_received", { input_id, answer });
          resolve(answer);
        });
        return OK;
      }),
    send: ({ task_id, conversation_id, content }) =>
      this.#with(task_id, conversation_id, (task) => {
        if (!task.live) return { type: "error", code: "task_terminated", message: "the task has ended" };
        setTimeout(() => task.emit("message", { from: "user", content }));
        return OK;
      }),
    open: ({ conversation_id, limit }, socket) => {
      socket.opened.add(conversation_id);
      const tasks = this.#tasksOf(conversation_id).map(({ summary }) => summary);
      const { messages, more: _ } = this.#page(conversation_id, { limit });
      return { type: "conversation", conversation_id, messages, tasks, branch: this.#branch(conversation_id) };
    },
    close: ({ conversation_id }, socket) => (socket.opened.delete(conversation_id), OK),
    watch: (_, socket) => ((socket.watches = true), OK),
    task: ({ task_id, conversation_id }) => this.#with(task_id, conversation_id, ({ summary: task }) => ({ type: "task", task })),
    tasks: ({ conversation_id }) => ({ type: "tasks", tasks: this.#tasksOf(conversation_id).map(({ summary }) => summary) }),
    history: ({ conversation_id, ...page }) => ({ type: "history", ...this.#page(conversation_id, page) }),
    branch: ({ conversation_id, message_id }) => {
      if (!this.#conversations.get(conversation_id)?.tree.choose(message_id)) return NOT_FOUND;
      return this.#chose(conversation_id);
    },
    conversations: ({ before, pinned, archived }) => {
      const has = (row: Json, mark: string, wanted?: boolean) => wanted === undefined || wanted === Boolean(row[mark]);
      const rows = this.#list().filter((row) => has(row, "pinned", pinned) && has(row, "archived", archived));
      return { type: "conversations", conversations: before ? [] : rows };
    },
    pin: ({ conversation_id, pinned }) => this.#mark(conversation_id, { pinned }),
    archive: ({ conversation_id, archived }) => this.#mark(conversation_id, { archived }),
    title: ({ conversation_id, title }) => {
      const conversation = this.#conversations.get(conversation_id);
      if (!conversation) return NOT_FOUND;
      conversation.title = title;
      this.#changed(conversation_id);
      return OK;
    },
    delete: ({ conversation_id }) => {
      this.#cancel(this.#tasksOf(conversation_id).filter(({ live }) => live));
      this.#changed(conversation_id, { deleted: true });
      this.#conversations.delete(conversation_id);
      return OK;
    },
    results: () => ({ type: "results", results: [] }),
    ack: ({ task_ids }) => ({ ...OK, acked: task_ids.length }),
  };

  get #agents(): Agent[] {
    return this.#options.agents ?? [{ name: "assistant", default: true }];
  }

  #chat(asked: Json, socket: FakeSocket): Json | Json[] {
    const { message, conversation_id, agent, request_key, background, regenerate } = asked;
    const again = request_key && this.#keys.get(request_key);
    if (again) {
      if (again.live) socket.follows.add(again.id);
      return [{ type: "started", task: again.summary, repeated: true }, ...again.events];
    }
    const n = String(++this.#ids).padStart(6, "0");
    const conversation = conversation_id ?? `conversation-${n}`;
    const place = this.#placeOf(conversation, asked);
    if (!place) return NOT_FOUND;
    const input = place.question?.content ?? textOf(message);
    const chosen = agent ?? this.#agents.find((each) => each.default)?.name ?? this.#agents[0]!.name;
    const type = background ? "background" : "chat";
    const parts = typeof message === "object" ? message : undefined;
    const told = (...what: [FakeTask, Json]) => this.#told(...what);
    const task = new FakeTask(`task-${n}`, conversation, input, chosen, type, told, parts, place.question?.message_id);
    this.tasks.push(task);
    if (request_key) this.#keys.set(request_key, task);
    if (!this.#conversations.has(conversation)) {
      this.#conversations.set(conversation, { title: input.slice(0, 80), updated_at: 0, tree: new FakeTree(), marks: {} });
    }
    queueMicrotask(() => this.#run(task, socket, place, regenerate !== undefined || asked.edit !== undefined));
    return { type: "started", task: task.summary };
  }

  /** Where a message goes; undefined: what it names is not there. */
  #placeOf(conversation: string, { reply_to, edit, regenerate }: Json): Place | undefined {
    const tree = this.#conversations.get(conversation)?.tree;
    if (regenerate !== undefined) {
      const named = tree?.find(regenerate);
      const asked = this.tasks.find(({ id }) => id === regenerate)?.questionId;
      const question = named?.role === "assistant" ? tree!.find(named.parent_id!) : (named ?? tree?.find(asked ?? ""));
      return question && { parent: question.message_id, question };
    }
    if (edit !== undefined) {
      const edited = tree?.find(edit, "user");
      return edited && { parent: edited.parent_id };
    }
    const end = reply_to === undefined ? tree?.end : tree?.find(reply_to);
    if (reply_to !== undefined && !end) return undefined;
    const running = end && this.tasks.find(({ id, live }) => id === end.task_id && live);
    return { parent: end?.message_id, until: end?.role === "user" ? running?.id : undefined };
  }

  /** After the reply, which names the task. */
  #run(task: FakeTask, socket: FakeSocket, place: Place, isBranch: boolean): void {
    const { id, conversationId, input, parts, agent } = task;
    socket.follows.add(id);
    task.emit("task.created", { agent, input, ...(parts && { parts }) });
    const tree = this.#conversations.get(conversationId)?.tree;
    if (task.type === "chat" && !place.question) {
      const message = { ...this.#message(task, "user", input, place.parent), until: place.until };
      tree?.ask(parts ? { ...message, parts } : message);
      this.#said(conversationId, message.message_id);
    }
    if (place.question) tree?.chooseQuestion(place.question.message_id);
    if (isBranch) this.#chose(conversationId);
    task.emit("task.started", {});
    void this.#options.answer?.(task);
    const waiting = this.#waiting.shift();
    if (waiting) waiting(task);
  }

  #cancel(tasks: FakeTask[]): Json {
    setTimeout(() => tasks.forEach((task) => task.cancelled()));
    return { ...OK, cancelled: tasks.length, task_ids: tasks.map(({ id }) => id) };
  }

  /** Its place in the list stays. */
  #mark(conversation_id: string, marks: Json): Json {
    const conversation = this.#conversations.get(conversation_id);
    if (!conversation) return { ...NOT_FOUND, message: "no such conversation" };
    const now = { ...conversation.marks, ...marks };
    conversation.marks = Object.fromEntries(Object.entries(now).filter(([, is]) => is));
    this.#listChanged(conversation_id);
    return OK;
  }

  // ---- unasked lines

  #told(task: FakeTask, event: Json): void {
    for (const socket of this.sockets) {
      if (socket.follows.has(task.id)) socket.tell(event);
      if (!event.event.startsWith("task.")) continue;
      if (socket.opened.has(task.conversationId)) socket.tell({ type: "task", task: task.summary });
    }
    if (!task.live && task.type === "chat" && event.data.output) this.#answered(task, event.data.output);
    if (event.event.startsWith("task.")) this.#changed(task.conversationId);
  }

  #message(task: FakeTask, role: Message["role"], content: string, parent_id: string | undefined) {
    const partial = task.status === "failed" || task.status === "cancelled";
    const message_id = `message-${String(++this.#ids).padStart(6, "0")}`;
    return { message_id, parent_id, task_id: task.id, role, content, partial, created_at: Date.now() };
  }

  #answered(task: FakeTask, output: string): void {
    const tree = this.#conversations.get(task.conversationId)?.tree;
    const parent = task.questionId ?? tree?.find(task.id, "user")?.message_id;
    const message = this.#message(task, "assistant", output, parent);
    tree?.answer(message);
    this.#said(task.conversationId, message.message_id);
  }

  #said(conversation_id: string, message_id: string): void {
    const { tree } = this.#conversations.get(conversation_id) ?? {};
    if (tree) this.#tell(conversation_id, { type: "message", message: tree.told(tree.find(message_id)!) });
  }

  /** Another branch is the current one. */
  #chose(conversation_id: string): Json {
    const { siblings: _, ...branch } = this.#branch(conversation_id) ?? {};
    const line = { type: "branch", conversation_id, ...branch };
    queueMicrotask(() => this.#tell(conversation_id, line));
    return line;
  }

  #tell(conversation_id: string, line: Json): void {
    for (const socket of this.sockets) if (socket.opened.has(conversation_id)) socket.tell({ conversation_id, ...line });
  }

  #changed(conversation_id: string, more: Json = {}): void {
    const conversation = this.#conversations.get(conversation_id);
    if (conversation) conversation.updated_at = Date.now();
    this.#listChanged(conversation_id, more);
  }

  #listChanged(conversation_id: string, more: Json = {}): void {
    const [listed] = this.#list().filter((each) => each.conversation_id === conversation_id);
    for (const socket of this.sockets) {
      if (socket.watches) socket.tell({ type: "conversation_changed", conversation: listed, ...more });
    }
  }

  // ---- its contents

  #branch(conversationId: string) {
    const { tree } = this.#conversations.get(conversationId) ?? {};
    const end = tree?.end;
    const its = this.tasks.filter(({ id, questionId }) => (questionId ? questionId === end?.message_id : id === end?.task_id)).at(-1);
    return tree?.branch(its?.id);
  }

  /** The newest messages of the current branch, or those before one. */
  #page(conversationId: string, { limit = 50, before, all }: Json) {
    const { tree } = this.#conversations.get(conversationId) ?? {};
    const path = (all ? tree?.all() : tree?.path()) ?? [];
    const at = before === undefined ? path.length : path.findIndex(({ message_id }) => message_id === before);
    const from = Math.max(0, at - limit);
    return { messages: path.slice(from, Math.max(0, at)), ...(from > 0 && { more: true }) };
  }

  #tasksOf(conversationId: string): FakeTask[] {
    return this.tasks.filter((task) => task.conversationId === conversationId && this.#conversations.has(conversationId));
  }

  #with(taskId: string, conversationId: string, then: (task: FakeTask) => Json | Json[]): Json | Json[] {
    const task = this.#tasksOf(conversationId).find(({ id }) => id === taskId);
    return task ? then(task) : NOT_FOUND;
  }

  #list(): Json[] {
    const rows = [...this.#conversations].map(([conversation_id, { title, updated_at, marks }]) => ({
      conversation_id,
      title,
      ...marks,
      updated_at,
      running: this.#tasksOf(conversation_id).filter(({ live }) => live).length,
    }));
    return rows.sort((a, b) => b.updated_at - a.updated_at);
  }
}

interface Place {
  /** The message under which it goes. */
  parent: string | undefined;
  /** The task behind whose answer it goes as soon as there is one. */
  until?: string;
  /** The question that gets another answer. */
  question?: Omit<Message, "siblings">;
}

const textOf = (message: string | readonly Part[]): string =>
  typeof message === "string" ? message : message.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");

const OK = { type: "ok" };
const NOT_FOUND = { type: "error", code: "not_found", message: "no such task" };
