/** changing.ts -- a value of the page that notifies its listeners when it changes. */

import type { Watchable } from "../watch";

export class Observable implements Watchable {
  version = 0;
  #listeners = new Set<() => void>();

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  };

  protected changed() {
    this.version++;
    for (const listener of this.#listeners) listener();
  }
}
