/** errors.ts -- the errors of rejected calls. */

import type { ErrorLine, TaskError } from "./wire.js";

/**
 * `code` is one of the wire's, or one of the client's own: `connection_lost` (sent, but it is
 * unknown whether it was carried out), `owner_changed` (another owner is signed in now), `closed`
 * (by `client.close()`, or by a gateway that does not want this client back).
 */
export class HoldfastError extends Error {
  override name = "HoldfastError";

  constructor(
    readonly code: string,
    message: string,
    readonly retryAfterMs?: number,
    /** For `out_of_range`. */
    readonly head?: number,
  ) {
    super(message);
  }

  static of({ code, message, retry_after_ms, head }: ErrorLine): HoldfastError {
    return new HoldfastError(code, message, retry_after_ms, head);
  }
}

/** A task that ended without completing; `code` is its error's. */
export class TaskFailed extends HoldfastError {
  override name = "TaskFailed";
  /** Why a model failed, if it was one. */
  readonly reason: string | undefined;

  constructor(
    readonly status: "failed" | "cancelled",
    error: TaskError,
    /** Its output until then. */
    readonly output: string,
  ) {
    super(error.code, error.message);
    this.reason = error.reason;
  }
}

export const ownerChanged = () => new HoldfastError("owner_changed", "somebody else is signed in");
