/** keyboard.ts -- what a key press is part of. */

import type { KeyboardEvent } from "react";

/** Safari reports no composition for the Enter that ends one (WebKit bug 165004). */
export const isComposing = ({ nativeEvent, keyCode }: KeyboardEvent) => nativeEvent.isComposing || keyCode === 229;

/** Whether this is a place where one types. */
export const isWriting = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
