/** locks.ts -- Web Locks as far as the client uses them: exclusive, first come, first served. */

export function fakeLocks() {
  const tails = new Map<string, Promise<unknown>>();
  return {
    request<T>(name: string, body: () => T | Promise<T>): Promise<T> {
      const granted = (tails.get(name) ?? Promise.resolve()).then(body);
      tails.set(
        name,
        granted.catch(() => {}),
      );
      return granted;
    },
  };
}
