import "fake-indexeddb/auto";
import { describe, expect, it, vi } from "vitest";
import { IndexedStore, MemoryStore, type Store } from "../../src/index.js";
import { ForgivingStore } from "../../src/store.js";

const broken: Store = {
  put: () => Promise.reject(new Error("forbidden")),
  update: () => Promise.reject(new Error("forbidden")),
  list: () => Promise.reject(new Error("forbidden")),
};

describe.each([
  ["memory", () => new MemoryStore()],
  ["IndexedDB", () => new IndexedStore(`test ${Math.random()}`)],
  ["memory in the place of one that fails", () => new ForgivingStore(broken)],
])("%s", (_, make: () => Store) => {
  it("keeps, changes, lists and forgets", async () => {
    const store = make();
    expect(await store.update<number>("a 1", (kept) => kept)).toBeUndefined();
    await store.put("a 1", 0);
    await store.update("a 1", () => 1);
    await store.put("a 2", 2);
    await store.update("b 1", () => 3);
    expect(await store.update<number>("a 1", (kept) => kept! + 10)).toBe(11);
    expect(await store.list("a ")).toEqual([11, 2]);
    await store.update("a 1", () => undefined);
    expect(await store.list("a ")).toEqual([2]);
    await store.put("a 2", undefined);
    expect(await store.list("a ")).toEqual([]);
  });

  it("changes as one step", async () => {
    const store = make();
    const count = () => store.update<number>("n", (kept = 0) => kept + 1);
    await Promise.all(Array.from({ length: 50 }, count));
    expect(await store.update<number>("n", (kept) => kept)).toBe(50);
  });
});

describe("IndexedDB", () => {
  it("outlives the page", async () => {
    await new IndexedStore("same").update("a", () => ({ deep: [1] }));
    expect(await new IndexedStore("same").list("a")).toEqual([{ deep: [1] }]);
  });

  it("fails, and does not throw, where a page may keep nothing or there is none", async () => {
    const open = () => {
      throw new DOMException("denied", "SecurityError");
    };
    for (const forbidden of [{ open }, undefined]) {
      vi.stubGlobal("indexedDB", forbidden);
      await expect(new IndexedStore().list("a")).rejects.toThrow();
    }
  });

  it("fails when it is not opened within ten seconds", async () => {
    vi.useFakeTimers();
    vi.stubGlobal("indexedDB", { open: () => ({}) });
    const store = new ForgivingStore(new IndexedStore());
    const kept = store.update("a", () => 1);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await kept).toBe(1);
    vi.useRealTimers();
  });
});
