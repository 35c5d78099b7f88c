/** katex.ts -- KaTeX with its fonts, as a separate piece that is fetched only when needed. */

import katex from "katex";
import "katex/dist/katex.min.css";

export { katex };
