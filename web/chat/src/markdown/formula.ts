/**
 * formula.ts -- formulae in Markdown: `$…$` and `\(…\)` in a line, `$$…$$` and `\[…\]` on their
 * own.
 *
 * A single dollar is a price unless it touches its formula on both sides, contains no other dollar,
 * and no digit follows (pandoc's rule).  A formula that its paragraph does not close is text.
 * Formulae become <tex> elements, which Formula.tsx draws.
 */

import type { Parent } from "mdast";
import type { Code, Construct, Effects, Extension, State, Token, TokenizeContext } from "micromark-util-types";

declare module "micromark-util-types" {
  interface TokenTypeMap {
    formula: "formula";
    formulaMark: "formulaMark";
    formulaText: "formulaText";
  }
}

const DOLLAR = 36;
const BACKSLASH = 92;
const ROUND = [40, 41] as const;
const SQUARE = [91, 93] as const;

/**
 * Closing marks that this text does not have any more: searching again would cost quadratic
 * time.
 */
const missing = new WeakMap<TokenizeContext, Set<string>>();

const isEnd = (code: Code) => code === null || code < -2;
const isBlank = (code: Code) => code === null || code < 0 || code === 32;
const isDigit = (code: Code) => code !== null && code >= 48 && code <= 57;

interface Open {
  /** The mark that ends it: one dollar, two, or a backslash and this bracket. */
  dollars: number;
  bracket: number;
}

/** Reads the mark that opens a formula, then `then`. */
function opens(effects: Effects, open: Open, then: State, nok: State): State {
  const more: State = (code) => {
    if (open.dollars === 0 && (code === ROUND[0] || code === SQUARE[0])) {
      open.bracket = code === ROUND[0] ? ROUND[1] : SQUARE[1];
    } else if (open.dollars === 1 && code === DOLLAR) open.dollars = 2;
    else {
      if (open.dollars === 0) return nok(code);
      effects.exit("formulaMark");
      return then(code);
    }
    effects.consume(code);
    effects.exit("formulaMark");
    return then;
  };
  return (code) => {
    open.dollars = code === DOLLAR ? 1 : 0;
    effects.enter("formula");
    effects.enter("formulaMark");
    effects.consume(code);
    return more;
  };
}

/** The mark that closes it. */
const closing = (open: Open): Construct => ({
  tokenize(effects, ok, nok) {
    let left = open.dollars || 2;
    const next: State = (code) => {
      const wanted = open.dollars ? DOLLAR : left === 2 ? BACKSLASH : open.bracket;
      if (code !== wanted) return nok(code);
      effects.consume(code);
      if (--left > 0) return next;
      effects.exit("formulaMark");
      return ok;
    };
    return (code) => {
      effects.enter("formulaMark");
      return next(code);
    };
  },
});

const lineEnd = (effects: Effects, then: State): State => (code) => {
  effects.enter("lineEnding");
  effects.consume(code);
  effects.exit("lineEnding");
  return then;
};

/** In a line of text. */
function inText(this: TokenizeContext, effects: Effects, ok: State, nok: State): State {
  const open: Open = { dollars: 0, bracket: 0 };
  let before: Code = this.previous;
  const single = () => open.dollars === 1;
  const mark = () => `${open.dollars} ${open.bracket}`;
  const none = missing.get(this) ?? new Set();
  missing.set(this, none);
  const first: State = (code) => (none.has(mark()) || (single() && isBlank(code)) ? nok(code) : between(code));
  const between: State = (code) => {
    if (code === null) none.add(mark());
    if (code === null) return nok(code);
    if (isEnd(code)) return lineEnd(effects, between)(code);
    if (single() && code === DOLLAR && isBlank(before)) return nok(code);
    return code === (open.dollars ? DOLLAR : BACKSLASH) ? effects.attempt(closing(open), closed, enter)(code) : enter(code);
  };
  const enter: State = (code) => {
    effects.enter("formulaText");
    return text(code);
  };
  const text: State = (code) => {
    const stops = isEnd(code) || code === DOLLAR || code === BACKSLASH;
    if (stops && started) {
      effects.exit("formulaText");
      started = false;
      return between(code);
    }
    started = true;
    before = code;
    effects.consume(code);
    return code === BACKSLASH ? escaped : text;
  };
  const escaped: State = (code) => {
    if (isEnd(code)) return text(code);
    before = code;
    effects.consume(code);
    return text;
  };
  let started = false;
  const closed: State = (code) => {
    if (single() && isDigit(code)) return nok(code);
    effects.exit("formula");
    return ok(code);
  };
  return opens(effects, open, first, nok);
}

/** On its own: from the beginning of a line to the end of one. */
function alone(this: TokenizeContext, effects: Effects, ok: State, nok: State): State {
  const self = this;
  const open: Open = { dollars: 0, bracket: 0 };
  let started = false;
  const first: State = (code) => (open.dollars === 1 || open.bracket === ROUND[1] ? nok(code) : between(code));
  const between: State = (code) => {
    if (code === null) return nok(code);
    if (isEnd(code)) return effects.attempt({ partial: true, tokenize: toNextLine }, between, nok)(code);
    return code === (open.dollars ? DOLLAR : BACKSLASH) ? effects.attempt(closing(open), rest, enter)(code) : enter(code);
  };
  const enter: State = (code) => {
    effects.enter("formulaText");
    return text(code);
  };
  const text: State = (code) => {
    const stops = isEnd(code) || code === DOLLAR || code === BACKSLASH;
    if (stops && started) {
      effects.exit("formulaText");
      started = false;
      return between(code);
    }
    started = true;
    effects.consume(code);
    return text;
  };
  const rest: State = (code) => {
    if (isEnd(code)) {
      effects.exit("formula");
      return ok(code);
    }
    if (!isBlank(code)) return nok(code);
    effects.enter("whitespace");
    effects.consume(code);
    effects.exit("whitespace");
    return rest;
  };
  /** A line of the same container, with something on it. */
  function toNextLine(this: TokenizeContext, effects: Effects, ok: State, nok: State): State {
    const blank: State = (code) => {
      if (isEnd(code)) return nok(code);
      if (!isBlank(code)) return ok(code);
      effects.enter("whitespace");
      effects.consume(code);
      effects.exit("whitespace");
      return blank;
    };
    return lineEnd(effects, (code) => (self.parser.lazy[self.now().line] ? nok(code) : blank(code)));
  }
  return opens(effects, open, first, nok);
}

const text: Construct = { name: "formula", tokenize: inText, previous: (code) => code !== DOLLAR && code !== BACKSLASH };
const flow: Construct = { name: "formula", tokenize: alone, concrete: true };

export const formulaSyntax: Extension = {
  text: { [DOLLAR]: text, [BACKSLASH]: text },
  flow: { [DOLLAR]: flow, [BACKSLASH]: flow },
};

interface Compiler {
  enter(node: object, token: Token): void;
  exit(token: Token): void;
  buffer(): void;
  resume(): string;
  sliceSerialize(token: Token): string;
  stack: Parent[];
}

/** `<tex>` with the text between the marks. */
export const formulaFromMarkdown = {
  enter: {
    formula(this: Compiler, token: Token) {
      this.enter({ type: "formula", children: [], data: { hName: "tex" } }, token);
    },
  },
  exit: {
    formula(this: Compiler, token: Token) {
      const whole = this.sliceSerialize(token).trim();
      const size = whole.startsWith("$") && !whole.startsWith("$$") ? 1 : 2;
      const node = this.stack.at(-1) as unknown as { data: object };
      const value = whole.slice(size, -size).trim();
      const display = whole.startsWith("$$") || whole.startsWith("\\[");
      node.data = { hName: "tex", hProperties: display ? { display: "block" } : {}, hChildren: [{ type: "text", value }] };
      this.exit(token);
    },
  },
};
