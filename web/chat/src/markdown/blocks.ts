/**
 * blocks.ts -- cuts growing Markdown into pieces that do not change.
 *
 * Each piece can be parsed by itself: the pieces, one after another, mean the same as the whole.
 * So only the last one is parsed again when more text comes, and nothing above it is touched.
 *
 * The rule: after an empty line, outside a fence, a line that begins in the first column with
 * anything but a list's marker begins something new, whatever came before.  Where one piece may
 * reach into another (raw HTML, definitions of links and footnotes) nothing more is cut.  Pieces
 * are not cut too small either, because each has a cost.
 */

const SMALL = 600; // characters

const LIST = /^(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)/;
const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/;
const REACHES = /^ {0,3}(?:<(?:script|pre|style|textarea|!|\?)|\[[^\]]+\]:)/i;
const EMPTY = /^[ \t]*$/;

export class Blocks {
  #text = "";
  /** The beginning of the last piece. */
  #cut = 0;
  /** The lines before this place have been examined. */
  #seen = 0;
  #fence: string | null = null;
  #afterEmpty = false;
  #inList = false;
  #whole = false;
  #pieces: string[] = [];
  #small: number;

  constructor(small = SMALL) {
    this.#small = small;
  }

  /** The pieces of a text; joined they are the text.  Pieces of the previous text are kept. */
  of(text: string): string[] {
    if (!text.startsWith(this.#text)) this.#reset();
    this.#text = text;
    for (let end; (end = text.indexOf("\n", this.#seen)) >= 0; this.#seen = end + 1) {
      this.#look(text.slice(this.#seen, end), this.#seen);
    }
    return [...this.#pieces, text.slice(this.#cut)];
  }

  #reset() {
    this.#cut = this.#seen = 0;
    this.#fence = null;
    this.#afterEmpty = this.#inList = this.#whole = false;
    this.#pieces = [];
  }

  #look(line: string, start: number) {
    if (this.#whole) return;
    if (EMPTY.test(line)) {
      this.#afterEmpty = true;
      return;
    }
    if (this.#fence !== null) {
      if (this.#closesFence(line)) this.#fence = null;
    } else {
      if (this.#afterEmpty && /^[^ \t]/.test(line) && !LIST.test(line)) this.#begin(start);
      this.#inList ||= LIST.test(line);
      if (REACHES.test(line)) return this.#undo();
      const fence = FENCE.exec(line)?.[1];
      // An indented one in a list ends, at the latest, where the list ends.
      if (fence && !(this.#inList && /^ {2}/.test(line))) this.#fence = fence;
    }
    this.#afterEmpty = false;
  }

  #begin(start: number) {
    this.#inList = false;
    if (start - this.#cut < this.#small) return;
    this.#pieces.push(this.#text.slice(this.#cut, start));
    this.#cut = start;
  }

  /** A definition also applies to the text before it. */
  #undo() {
    this.#whole = true;
    this.#pieces = [];
    this.#cut = 0;
  }

  #closesFence(line: string): boolean {
    const mark = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(line)?.[1];
    return mark !== undefined && mark[0] === this.#fence![0] && mark.length >= this.#fence!.length;
  }
}
