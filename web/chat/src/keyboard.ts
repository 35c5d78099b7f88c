/** keyboard.ts -- what a key press is part of. */

import type { KeyboardEvent } from "react";

/** Safari reports no composition for the Enter that ends one (WebKit bug 165004). */
export const isComposing = ({ nativeEvent, keyCode }: KeyboardEvent) => nativeEvent.isComposing || keyCode === 229;
