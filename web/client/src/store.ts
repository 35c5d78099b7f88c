/** store.ts -- storage for what must survive the page: a guest's token, unsent messages. */

export interface Store {
  /**
   * Keeps a value; undefined removes it.  The page's next step, such as leaving, must not undo it,
   * nor may what the page has asked the store before.
   */
  put(key: string, value: unknown): Promise<void>;
  /** Changes the value of a key in one step; undefined means none.  Returns the new value. */
  update<T>(key: string, change: (kept: T | undefined) => T | undefined): Promise<T | undefined>;
  /** All values whose keys begin with this. */
  list<T>(prefix: string): Promise<T[]>;
}

export class MemoryStore implements Store {
  #kept = new Map<string, unknown>();

  async put(key: string, value: unknown) {
    value === undefined ? this.#kept.delete(key) : this.#kept.set(key, value);
  }

  async update<T>(key: string, change: (kept: T | undefined) => T | undefined) {
    const value = change(this.#kept.get(key) as T | undefined);
    await this.put(key, value);
    return value;
  }

  async list<T>(prefix: string) {
    return [...this.#kept].flatMap(([key, value]) => (key.startsWith(prefix) ? [value as T] : []));
  }
}

const OPEN_MS = 10_000; // some browsers, now and then, never answer

/** Commits at once, if so said: what a page that leaves has not committed is undone, with all behind it. */
const done = <T>(request: IDBRequest<T>, commit = true): Promise<T> =>
  new Promise((resolve, reject) => {
    if (commit) request.transaction?.commit();
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

const write = (kept: IDBObjectStore, key: string, value: unknown): IDBRequest =>
  value === undefined ? kept.delete(key) : kept.put(value, key);

export class IndexedStore implements Store {
  #database: Promise<IDBDatabase>;

  constructor(name = "holdfast") {
    this.#database = new Promise((resolve, reject) => {
      const opening = indexedDB.open(name, 1); // throws if missing, or if a page may store nothing
      opening.onupgradeneeded = () => opening.result.createObjectStore("kept");
      done(opening).then(resolve, reject);
      setTimeout(reject, OPEN_MS);
    });
    this.#database.catch(() => {});
  }

  async #kept(mode: IDBTransactionMode) {
    return (await this.#database).transaction("kept", mode).objectStore("kept");
  }

  async put(key: string, value: unknown) {
    const kept = await this.#kept("readwrite");
    await done(write(kept, key, value));
  }

  async update<T>(key: string, change: (kept: T | undefined) => T | undefined) {
    const kept = await this.#kept("readwrite");
    const value = change(await done<T | undefined>(kept.get(key), false));
    await done(write(kept, key, value));
    return value;
  }

  async list<T>(prefix: string) {
    const kept = await this.#kept("readonly");
    return done<T[]>(kept.getAll(IDBKeyRange.bound(prefix, `${prefix}\uffff`)));
  }
}

/** Falls back to memory when the first store fails: then a reload forgets. */
export class ForgivingStore implements Store {
  #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  put: Store["put"] = (key, value) => this.#ask((store) => store.put(key, value));
  update: Store["update"] = (key, change) => this.#ask((store) => store.update(key, change));
  list: Store["list"] = (prefix) => this.#ask((store) => store.list(prefix));

  async #ask<T>(question: (store: Store) => Promise<T>): Promise<T> {
    const store = this.#store;
    try {
      return await question(store);
    } catch {
      if (store === this.#store) this.#store = new MemoryStore();
      return question(this.#store);
    }
  }
}
