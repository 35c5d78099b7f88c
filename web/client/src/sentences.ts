/**
 * @holdfast/client/sentences -- errors in a sentence for the people who use a page, and the
 * machine's words for those who want them.
 */

/** A `HoldfastError`, a `TaskFailed`, or the `error` of a task. */
export interface Wrong {
  code: string;
  message?: string;
  /** The kind of failure, when the gateway tells it. */
  reason?: string;
}

/** The sentence for each reason and code: give `sentenceOf` others for another language or tone. */
export const sentences: Readonly<Record<string, string>> = {
  // reasons of a model
  model_busy: "The model is busy. Try again in a moment.",
  model_overloaded: "The model’s servers are overloaded. Try again in a while.",
  model_refused: "The model refuses this gateway’s key. Please tell the person who runs it.",
  model_unreachable: "The model cannot be reached. Try again in a while.",
  context_too_long: "This conversation has become too long for the model. Begin a new one.",
  broke_off: "The answer broke off.",
  // codes of a task
  agent_error: "The assistant broke off.",
  timeout: "It took too long, and was stopped.",
  cancelled: "It was stopped.",
  orphaned: "The gateway was restarted while this ran.",
  limit: "It reached a limit of this gateway.",
  // codes of a request
  bad_request: "The gateway does not understand this.",
  unauthorized: "You are not signed in.",
  not_found: "This is no longer there.",
  conflict: "This has been answered, or changed, elsewhere.",
  out_of_range: "What was shown here is no longer there. Open the conversation again.",
  task_terminated: "The task has ended already.",
  no_inbox: "This agent takes no messages while it works.",
  too_large: "This is too long to be sent.",
  rate_limited: "That was too fast. Wait a moment.",
  overloaded: "There is no room for it at the moment.",
  unsupported: "This gateway cannot do that.",
  internal: "Something went wrong in the gateway.",
  // the client's own codes
  connection_lost: "The connection broke. It may, or may not, have arrived.",
  closed: "There is no connection.",
  owner_changed: "Somebody else is signed in now.",
  discarded: "It was not sent.",
  bad_url: "The gateway’s address is wrong.",
  no_websocket: "There is no WebSocket here.",
};

/** A sentence without the machine's words; a reason says more than its code. */
export const sentenceOf = ({ reason = "", code }: Wrong, its = sentences): string =>
  its[reason] ?? its[code] ?? "Something went wrong.";

/** The gateway's words where its `errors` is "short": they say no more than the sentence above. */
const UNTOLD = [
  "the agent broke off",
  "the agent could not go on",
  "the model failed",
  "the model is busy, or its quota is used up",
  "the model's server is overloaded",
  "the model's server refuses this gateway",
  "the model's server cannot be reached",
  "the conversation is too long for the model",
  "the answer broke off",
];

/** The machine's words without the code in front; "" when the gateway keeps them for its log. */
export function detailOf({ code, message = "" }: Wrong): string {
  const own = message.startsWith(`${code}:`) ? message.slice(code.length + 1).trim() : message.trim();
  const told = own.replace(/^model: (?:[a-z_]+: )?/, "");
  return own === code || UNTOLD.includes(told) ? "" : own;
}

const FOR_GOOD = [
  ...["bad_request", "conflict", "context_too_long", "model_refused"],
  ...["owner_changed", "too_large", "unsupported"],
];

/** Whether sending the same again may help. */
export const mayRetry = ({ code, reason = "" }: Wrong): boolean =>
  !FOR_GOOD.includes(code) && !FOR_GOOD.includes(reason);
