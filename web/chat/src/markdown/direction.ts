/** direction.ts -- each block of an answer runs in the direction of its own first letters. */

import type { Root } from "hast";

/** Only the outermost blocks: a list or a table has one direction. */
export function ownDirection() {
  return ({ children }: Root) => {
    for (const child of children) if (child.type === "element") child.properties.dir = "auto";
  };
}
