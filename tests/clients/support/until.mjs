// until.mjs -- waits for what a client shows: it has no event for it.

export const WAIT_MS = 60_000;

export async function until(holds, what) {
  const end = Date.now() + WAIT_MS;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
