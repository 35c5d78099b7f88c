/**
 * observable.ts -- an object that notifies its listeners of changes: once per turn, however
 * many.
 */

export abstract class Observable {
  /** Grows with each change. */
  version = 0;
  #listeners = new Set<() => void>();
  #told = true;

  /** Calls `listener` after each change; returns a function that ends it. */
  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** This object, now and after each change; changes between two steps are combined. */
  async *changes(): AsyncGenerator<this, void, void> {
    let wake: () => void = () => {};
    const end = this.subscribe(() => wake());
    try {
      for (let seen = -1; ;) {
        if (seen === this.version) await new Promise<void>((resolve) => (wake = resolve));
        seen = this.version;
        yield this;
      }
    } finally {
      end();
    }
  }

  /** @internal */
  changed(): void {
    this.version++;
    if (!this.#told) return;
    this.#told = false;
    queueMicrotask(() => {
      this.#told = true;
      for (const listener of this.#listeners) queueMicrotask(listener);
    });
  }
}
