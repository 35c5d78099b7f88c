/** katex.ts -- KaTeX with its fonts, as a piece of its own that is fetched only when it is wanted. */

import katex from "katex";
import "katex/dist/katex.min.css";

export { katex };
