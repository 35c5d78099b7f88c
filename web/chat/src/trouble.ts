/**
 * trouble.ts -- errors in a sentence for people, and the machine's words for those who want
 * them.
 */

export interface Wrong {
  code: string;
  message: string;
  /** The kind of failure, when the gateway tells it. */
  reason?: string;
}

const reasons: Record<string, string> = {
  model_busy: "The model is busy. Try again in a moment.",
  model_overloaded: "The model’s servers are overloaded. Try again in a while.",
  model_refused: "The model refuses this gateway’s key. Please tell the person who runs it.",
  model_unreachable: "The model cannot be reached. Try again in a while.",
  context_too_long: "This conversation has become too long for the model. Begin a new one.",
  broke_off: "The answer broke off.",
};

const codes: Record<string, string> = {
  agent_error: "The assistant broke off.",
  timeout: "It took too long, and was stopped.",
  cancelled: "It was stopped.",
  orphaned: "The gateway was restarted while this ran.",
  limit: "It reached a limit of this gateway.",
  overloaded: "There is no room for it at the moment.",
  rate_limited: "That was too fast. Wait a moment.",
  internal: "Something went wrong in the gateway.",
  too_large: "This is too long to be sent.",
  conflict: "This has been answered, or changed, elsewhere.",
  not_found: "This is no longer there.",
  unauthorized: "You are not signed in.",
  owner_changed: "Somebody else is signed in now.",
  connection_lost: "The connection broke. It may, or may not, have arrived.",
  closed: "There is no connection.",
  task_terminated: "The task has ended already.",
  no_inbox: "This agent takes no messages while it works.",
};

export const sentenceOf = ({ reason = "", code }: Wrong): string =>
  reasons[reason] ?? codes[code] ?? "Something went wrong.";

/** The message without the code in front; "" when there is no more. */
export function detailOf({ code, message }: Wrong): string {
  const own = message.startsWith(`${code}:`) ? message.slice(code.length + 1).trim() : message.trim();
  return own === code ? "" : own;
}

/** Whether sending the same again may help. */
export const mayRetry = ({ code }: Wrong): boolean =>
  !["too_large", "bad_request", "conflict", "unsupported", "owner_changed"].includes(code);
