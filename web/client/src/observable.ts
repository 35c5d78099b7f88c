/** observable.ts -- something that changes, and tells so: once per turn, however much has changed. */

export abstract class Observable {
  /** Grows with each change. */
  version = 0;
  #listeners = new Set<() => void>();
  #told = true;

  /** Calls `listener` after each change; returns what ends that. */
  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** This object, now and after each change; changes that nobody waited for come as one. */
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
