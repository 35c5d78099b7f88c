/** How much of a fast answer a frame draws. */

import { expect, test } from "vitest";
import { Room } from "./pace";

/** Characters that wait after so many frames in each of which so much comes and drawing is so slow. */
function waitingAfter(frames: number, come: number, msOf: (characters: number) => number) {
  const room = new Room();
  let waits = 0;
  for (let n = 0; n < frames; n++) {
    waits += come;
    const drawn = Math.min(waits, room.of(waits));
    room.took(drawn, msOf(drawn));
    waits -= drawn;
  }
  return waits;
}

test("a frame draws less where drawing is slow, and more where it is fast", () => {
  const [slow, fast] = [new Room(), new Room()];
  for (let n = 0; n < 20; n++) {
    slow.took(slow.of(500), 60);
    fast.took(fast.of(1_000), 1);
  }
  expect(slow.of(500)).toBe(200);
  expect(fast.of(500)).toBe(1_000);
});

test("a page that is slow shows all but the last moments of what comes", () => {
  expect(waitingAfter(1_000, 450, () => 60)).toBeLessThanOrEqual(4 * 450);
});

test("much that waits does not make one long frame", () => {
  const room = new Room();
  for (let n = 0; n < 20; n++) room.took(room.of(60_000), 60);
  expect(room.of(60_000)).toBe(500);
});
