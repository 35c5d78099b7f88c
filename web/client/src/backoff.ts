/** backoff.ts -- how long to wait before the next attempt: exponential, with full jitter. */

export interface BackoffOptions {
  /** The first wait is a random part of this, each further one a part of twice as much. */
  baseMs?: number | undefined;
  capMs?: number | undefined;
}

export class Backoff {
  #attempts = 0;
  #baseMs: number;
  #capMs: number;

  constructor({ baseMs = 500, capMs = 30_000 }: BackoffOptions = {}) {
    this.#baseMs = baseMs;
    this.#capMs = capMs;
  }

  next(): number {
    return Math.random() * Math.min(this.#capMs, this.#baseMs * 2 ** this.#attempts++);
  }

  reset(): void {
    this.#attempts = 0;
  }
}
