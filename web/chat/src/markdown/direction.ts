/** direction.ts -- each block of an answer runs as its own first letters do: from the left or the right. */

import type { Root } from "hast";

/** Of the outermost alone: what lies in a list or a table runs as all of it does. */
export function ownDirection() {
  return ({ children }: Root) => {
    for (const child of children) if (child.type === "element") child.properties.dir = "auto";
  };
}
