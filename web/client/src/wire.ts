/** wire.ts -- the lines of `holdfast.v1` as types.  Members of the wire keep their names here. */

export const SUBPROTOCOL = "holdfast.v1";

export type TaskType = "chat" | "background" | "child" | "notice";
export type TaskStatus = "pending" | "running" | "completed" | "failed" | "cancelled";

export interface TaskError {
  code: "agent_error" | "timeout" | "cancelled" | "orphaned" | "limit" | "overloaded" | "internal";
  message: string;
  /** Why a model failed: `model_busy`, `model_overloaded`, `model_refused`, `model_unreachable`, `context_too_long`, `broke_off`. */
  reason?: string;
}

export interface TaskSummary {
  task_id: string;
  conversation_id: string;
  agent: string;
  type: TaskType;
  status: TaskStatus;
  head: number;
  created_at: number;
  name?: string | null;
  description?: string | null;
  progress?: number | null;
  waiting_for?: string | null;
  cancel_requested_at?: number | null;
  error?: TaskError | null;
  notify_on_complete?: boolean;
  parent?: Parent | null;
  started_at?: number | null;
  completed_at?: number | null;
  /** Pairs of N and R: the text of the events after N and before R is withdrawn.  Not in lists and pushes. */
  retracted?: readonly (readonly [number, number])[] | null;
  /** The message that it answers, when another task brought that: a regenerated answer. */
  question_id?: string;
}

/** The end of a conversation's current branch. */
export interface Branch {
  /** Its last message. */
  message_id: string;
  /** The task that answers it, or has failed to, if it is a question. */
  task_id?: string;
  /** The answers, and other messages, that it has already.  Only in the reply to `open`. */
  siblings?: string[];
}

/** The reply to `task`: the summary and what lists and pushes leave out. */
export interface TaskRecord extends TaskSummary {
  output?: string | null;
  output_truncated?: boolean;
  result?: unknown;
  undelivered?: unknown[];
  metadata?: Record<string, unknown> | null;
}

export interface Parent {
  task_id?: string | null;
  run_id?: string | null;
  call_id?: string | null;
  agent_id?: string | null;
}

/** A file of the conversation; what the gateway knows of it comes back with it. */
export interface FilePart {
  type: "file";
  file_id: string;
  name?: string;
  media_type?: string;
  size?: number;
  sha256?: string;
}
/** A message in parts: texts, files, and small files within it (base64). */
export type Part =
  | { type: "text"; text: string }
  | FilePart
  | { type: "file"; media_type: string; name?: string; data: string };

export interface Message {
  message_id: string;
  /** The message before it on its branch; missing in a first one. */
  parent_id?: string;
  /** All messages with the same parent, its own id too; missing when there are no others. */
  siblings?: string[];
  role: "user" | "assistant" | "system";
  /** The texts; the parts stand beside it where there is more than one text. */
  content: string;
  parts?: readonly Part[];
  created_at: number;
  task_id?: string | null;
  partial?: boolean;
}

export interface ConversationSummary {
  conversation_id: string;
  title?: string;
  updated_at: number;
  running?: number;
  pinned?: boolean;
  archived?: boolean;
}

/** Places of what was found in a text: where it begins and the length of each, in characters (code points). */
export type Matches = readonly (readonly [number, number])[];

export interface FoundConversation extends ConversationSummary {
  /** In `title`. */
  matches: Matches;
}

export interface FoundMessage {
  conversation_id: string;
  message_id: string;
  task_id?: string;
  role: Message["role"];
  created_at: number;
  /** At most 160 characters around what was found first. */
  text: string;
  matches: Matches;
}

/** `answer`: to the questions of tasks. */
export type Right = "read" | "ask" | "answer" | "cancel";

export interface Share {
  share_id: string;
  conversation_id: string;
  /** Missing: all of the conversation. */
  task_id?: string;
  rights: readonly Right[];
  /** In whose name is asked; missing in a link. */
  actor?: string;
  created_at: number;
  expires_at: number;
}

export interface BackgroundResult {
  task_id: string;
  status: TaskStatus;
  prompt: string;
  answer: string;
  completed_at: number;
}

export interface Agent {
  name: string;
  description?: string;
  /** Example questions: suggestions for an empty conversation. */
  examples?: string[];
  default?: boolean;
}

// ---- events

/**
 * The `custom` events of an application's agents, by `event_type`.  Declare yours once, and they
 * have types everywhere:
 *
 *     declare module "@holdfast/client" { interface CustomEvents { price: { euro: number } } }
 */
export interface CustomEvents {}

export type CustomData = keyof CustomEvents extends never
  ? { event_type: string; payload: unknown }
  : { [N in keyof CustomEvents]: { event_type: N; payload: CustomEvents[N] } }[keyof CustomEvents];

/** The tools of an application's agents, by name: declare the arguments of yours in the same way. */
export interface Tools {}

export type ToolCallData = keyof Tools extends never
  ? { call_id: string; name: string; arguments: Record<string, unknown> }
  : { [N in keyof Tools]: { call_id: string; name: N; arguments: Tools[N] } }[keyof Tools];

export interface EventData {
  "task.created": { agent: string; input: string; parts?: readonly Part[]; name?: string; description?: string };
  "task.started": Record<string, never>;
  /**
   * The gateway was restarted, and the task goes on.  The text of the events after `retracts` is
   * withdrawn: `keep` says how many characters (code points) remain of all tokens, and of all
   * thoughts.
   */
  "task.resumed": {
    attempt: number;
    why: "restart" | "takeover";
    planned?: boolean;
    retracts?: number;
    keep?: { text: number; thinking: number };
  };
  thinking: { text: string };
  token: { text: string };
  tool_call: ToolCallData;
  tool_result: { call_id: string; name: string; output: string; is_error?: boolean };
  progress: { progress: number; note?: string };
  child: { task_id: string; name?: string; description?: string; call_id?: string };
  message: { from: string; content: string };
  input_required: {
    input_id: string;
    kind: "approval" | "question" | "budget";
    prompt: string;
    /** The tool_call in which it asks, if any. */
    call_id?: string;
    tool?: string;
    arguments?: Record<string, unknown>;
    /** Answers to choose from, for approvals beside true and false: a text is its own answer, an object's `id` is. */
    options?: readonly (string | { id: string; name?: string; kind?: string })[];
    expires_at?: number;
  };
  input_received: { input_id: string; answer: boolean | string | null };
  /** A file of the conversation that the agent has made. */
  file: Omit<FilePart, "type">;
  custom: CustomData;
  final_answer: { output: string };
  "task.completed": { output: string; result?: unknown; chain?: string };
  "task.failed": {
    status: "failed" | "cancelled";
    error: TaskError;
    output?: string;
    cancel?: { requested_at: number; stopped_at: number };
    chain?: string;
  };
  /** Not from the wire: earlier events are not contiguous, and `first` comes next. */
  reset: { after: number; first: number };
}

export type EventName = keyof EventData;

/** `from` is in merged pieces of text: the seq of the first of them. */
export type TaskEvent<E extends EventName = EventName> = {
  [N in E]: {
    event: N;
    seq: number;
    from?: number;
    ts: number;
    task_id: string;
    data: EventData[N];
  };
}[E];

export const isTerminal = ({ event }: { event: EventName }): boolean =>
  event === "task.completed" || event === "task.failed";

// ---- requests and their replies

interface ConversationRef {
  conversation_id: string;
}
interface TaskRef extends ConversationRef {
  task_id: string;
}
interface Page {
  limit?: number;
  before?: string;
}

export interface ChatOptions {
  agent?: string;
  request_key?: string;
  background?: boolean;
  name?: string;
  description?: string;
  notify_on_complete?: boolean;
  when_busy?: "parallel" | "reject" | "enqueue" | "interrupt";
  metadata?: Record<string, unknown>;
  context?: { role: "system" | "developer" | "user" | "assistant"; content: string }[];
  unlisted?: boolean;
  /** The message under which this one goes: `message_id`, or the `task_id` of an answer. */
  reply_to?: string;
  /** The user's message beside which this one goes, with the same history. */
  edit?: string;
  /** Text of its events comes joined, at most once in so many milliseconds. */
  rollup_ms?: number;
}

export interface RequestFields {
  chat: ChatOptions & { message: string | readonly Part[]; conversation_id?: string };
  resume: TaskRef & { after?: number; epoch?: number; coalesce?: boolean; rollup_ms?: number };
  unsubscribe: TaskRef;
  cancel: TaskRef & { tree?: boolean };
  cancel_all: ConversationRef;
  send: TaskRef & { content: string };
  respond: TaskRef & { input_id: string; answer: boolean | string };
  open: ConversationRef & { limit?: number; follow?: boolean; rollup_ms?: number };
  close: ConversationRef;
  watch: { events?: boolean; cursor?: string; rollup_ms?: number };
  task: TaskRef;
  tasks: ConversationRef & Page & { status?: TaskStatus };
  history: ConversationRef & Page & { all?: boolean };
  branch: ConversationRef & { message_id: string };
  export: ConversationRef & { from?: string };
  import: Partial<ConversationRef> & { lines: readonly ExportLine[]; title?: string };
  fork: ConversationRef & { message_id?: string; to?: string; title?: string };
  conversations: Page & { pinned?: boolean; archived?: boolean };
  search: Page & { query: string };
  title: ConversationRef & { title: string };
  pin: ConversationRef & { pinned: boolean };
  archive: ConversationRef & { archived: boolean };
  delete: ConversationRef;
  results: ConversationRef & Page;
  ack: ConversationRef & { task_ids: string[] };
  share: ConversationRef & { task_id?: string; rights?: readonly Right[]; actor?: string; expires_at?: number };
  shares: Page & Partial<ConversationRef>;
  unshare: { share_id: string };
  handover: Record<never, never>;
  ping: Record<never, never>;
}

export interface Replies {
  chat: { type: "started"; task: TaskSummary; repeated?: boolean };
  resume: {
    type: "resumed";
    task: TaskSummary;
    after: number;
    head: number;
    first?: number;
    epoch?: number;
  };
  unsubscribe: Ok;
  cancel: Ok & { cancelled: number; task_ids: string[] };
  cancel_all: Ok & { cancelled: number; task_ids: string[] };
  send: Ok;
  respond: Ok;
  open: {
    type: "conversation";
    conversation_id: string;
    messages: Message[];
    tasks: TaskSummary[];
    branch?: Branch;
  };
  close: Ok;
  watch: Ok;
  task: { type: "task"; task: TaskRecord };
  tasks: { type: "tasks"; tasks: TaskSummary[]; more?: boolean };
  history: { type: "history"; messages: Message[]; more?: boolean };
  branch: { type: "branch"; conversation_id: string } & Branch;
  export: { type: "exported"; conversation_id: string; lines: ExportLine[]; more: boolean; from?: string };
  import: { type: "imported"; conversation_id: string; messages: number };
  fork: { type: "forked"; conversation_id: string; messages: number };
  conversations: { type: "conversations"; conversations: ConversationSummary[]; more?: boolean };
  search: {
    type: "found";
    conversations?: FoundConversation[];
    messages: FoundMessage[];
    more?: boolean;
    before?: string;
  };
  title: Ok;
  pin: Ok;
  archive: Ok;
  delete: Ok;
  results: { type: "results"; results: BackgroundResult[]; more?: boolean };
  ack: Ok & { acked: number };
  share: { type: "shared"; share: Share; token: string; url?: string };
  shares: { type: "share_list"; shares: Share[]; more?: boolean };
  unshare: Ok;
  handover: { type: "handover"; code: string; expires_at: number; url?: string };
  ping: { type: "pong"; ts: number };
}

interface Ok {
  type: "ok";
}

/** A line of an export. */
export type ExportLine =
  | { type: "conversation"; version: 1; conversation: ConversationSummary; branch?: Branch }
  | { type: "message"; message: Message }
  | { type: "task"; task: TaskRecord }
  | ({ type: "event" } & Exclude<TaskEvent, TaskEvent<"reset">>);

export type Verb = keyof RequestFields;

export interface ErrorLine {
  type: "error";
  id?: string;
  code: string;
  message: string;
  retry_after_ms?: number;
  head?: number;
}

export interface Welcome {
  type: "welcome";
  id?: string;
  owner: string;
  token?: string;
  server?: { name: string; version: string };
  agents?: Agent[];
  limits?: { message_bytes?: number; tasks_per_owner?: number; heartbeat_ms?: number };
  /** All that a narrowed token is good for. */
  rights?: { conversations: readonly Narrowed[]; actor?: string };
  /** Grows when the gateway has lost what it had committed; missing while it never has. */
  epoch?: number;
}

export interface Narrowed {
  id?: string;
  prefix?: string;
  task_id?: string;
  rights: readonly Right[];
}

/** Lines that the gateway sends unasked. */
export type Push =
  | ({ type: "event" } & Exclude<TaskEvent, TaskEvent<"reset">>)
  | { type: "caught_up"; task_id: string; seq: number }
  | { type: "task"; task: TaskSummary }
  | { type: "message"; conversation_id: string; message: Message }
  | { type: "conversation_changed"; conversation: ConversationSummary; deleted?: boolean }
  | { type: "goaway"; retry_after_ms: number }
  | { type: "token_expiring"; expires_at: number };

/** A line from the gateway. */
export type Line = (Push | Replies[Verb] | ErrorLine | Welcome) & { id?: string };
