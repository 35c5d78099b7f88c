/**
 * focus.ts -- the focus is never lost: when the element that has it goes away, or can no longer be used, the nearest
 * one has it.  Else the next key would begin at the top of the page.
 */

const USABLE = "button:enabled, a[href], input:enabled, textarea:enabled, select:enabled, summary";

let last: HTMLElement | null = null;
let around: readonly Element[] = []; // its group and its dialog, in this order
let thread: Element | null = null; // the messages, if it stands among them

function note({ target }: FocusEvent) {
  last = target as HTMLElement;
  thread = last.closest("#thread");
  around = [last.closest("[role=group]"), last.closest("dialog")].filter((box) => box !== null);
}

/** The field; but on a touch screen it would open the keyboard, and who goes through conversations by keys goes on. */
function elsewhere() {
  const isReading = matchMedia("(pointer: coarse)").matches || (thread !== null && !thread.isConnected);
  return document.getElementById(isReading ? "thread" : "message");
}

function nearest(): HTMLElement | null {
  const box = around.find((each) => each.isConnected && each.checkVisibility());
  return [...(box?.querySelectorAll<HTMLElement>(USABLE) ?? [])].findLast((each) => each.checkVisibility()) ?? elsewhere();
}

function keep() {
  if (!last || (last.isConnected && !last.matches(":disabled"))) return;
  const { activeElement } = document;
  const isElsewhere = activeElement !== last && activeElement !== document.body;
  last = null;
  if (!isElsewhere) nearest()?.focus({ preventScroll: true });
}

/** To be called once. */
export function keepFocus() {
  addEventListener("focusin", note);
  new MutationObserver(keep).observe(document, { childList: true, subtree: true, attributeFilter: ["disabled"] });
}
