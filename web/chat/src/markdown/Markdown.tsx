/**
 * Markdown.tsx -- renders an answer while it is still growing.
 *
 * Text from any source becomes React's elements, never HTML, so no script can get in.
 * rehype-sanitize is a second guard.  A growing text is cut (blocks.ts), so that only its last
 * piece is parsed again; whatever is open in it is closed for now (remend).
 */

import { memo, useId, useRef, type ComponentProps, type MouseEvent } from "react";
import { usePaced } from "./pace";
import ReactMarkdown, { type Components, type Options } from "react-markdown";
import rehypeSanitize, { defaultSchema } from "rehype-sanitize";
import remend from "remend";
import { Blocks } from "./blocks";
import { CodeBlock } from "./CodeBlock";
import { colourCode } from "./colour";
import { ownDirection } from "./direction";
import { extras } from "./extras";
import { Formula } from "./Formula";
import { htmlAsText } from "./plain";

/** Only footnotes have ids, with the answer's own prefix. */
const schema: typeof defaultSchema = {
  ...defaultSchema,
  clobberPrefix: "",
  tagNames: [...defaultSchema.tagNames!, "tex"],
  attributes: { ...defaultSchema.attributes, tex: ["display"] },
};

const optionsWith = (tables: boolean): Options => ({
  remarkPlugins: [[extras, { tables }], htmlAsText],
  rehypePlugins: [[rehypeSanitize, schema], colourCode, ownDirection],
});
const plain = optionsWith(false);
const tables = optionsWith(true);

/**
 * Goes to a footnote or back, without changing the page's address, which names the
 * conversation.
 */
function goWithin(event: MouseEvent<HTMLAnchorElement>) {
  event.preventDefault();
  const target = document.getElementById(event.currentTarget.hash.slice(1));
  target?.scrollIntoView({ block: "nearest" });
  (target?.querySelector<HTMLElement>("a[data-footnote-backref]") ?? target)?.focus();
}

function Link(link: ComponentProps<"a">) {
  if (link.href?.startsWith("#")) return <a {...link} onClick={goWithin} />;
  return <a {...link} target="_blank" rel="noopener noreferrer nofollow" />;
}

const components: Components & { tex: unknown } = {
  pre: ({ children }) => <CodeBlock>{children}</CodeBlock>,
  a: ({ node: _, ...link }) => <Link {...link} />,
  tex: ({ children, display }: { children: string; display?: string }) => (
    <Formula tex={String(children)} display={display === "block"} />
  ),
  // Not loaded: a picture from elsewhere would reveal that somebody reads this.
  img: ({ src, alt }) => (
    <a href={typeof src === "string" ? src : undefined} target="_blank" rel="noopener noreferrer nofollow">
      {alt || "picture"}
    </a>
  ),
  table: ({ node: _, dir, ...table }) => (
    <div className="table" dir={dir} tabIndex={0} role="region" aria-label="Table">
      <table {...table} />
    </div>
  ),
};

const NEAR = 3; // pieces before the last one that are never skipped
const CHARACTERS_PER_MS = 100; // so that parsing takes a tenth of the time, or less

interface PieceOfText {
  text: string;
  growing: boolean;
  /** Prefix for the ids of its footnotes. */
  prefix: string;
}

const Piece = memo(({ text, growing, prefix }: PieceOfText) => (
  <ReactMarkdown
    {...(text.includes("|") ? tables : plain)}
    remarkRehypeOptions={{ clobberPrefix: prefix, footnoteLabelProperties: { className: ["sr-only"] } }}
    components={components}
  >
    {growing ? remend(text) : text}
  </ReactMarkdown>
));

interface Props {
  text: string;
  growing?: boolean;
  /** It arrived here, piece by piece: the heights of all but the last pieces are known. */
  grown?: boolean;
}

export const Markdown = memo(({ text, growing = false, grown = false }: Props) => {
  const prefix = `${useId()}-`;
  const blocks = useRef<Blocks>(null);
  blocks.current ??= new Blocks();
  const read = useRef(0); // characters of the last piece
  const paced = usePaced(text, growing ? read.current / CHARACTERS_PER_MS : 0);
  const pieces = blocks.current.of(paced);
  read.current = pieces.at(-1)!.length;
  const last = pieces.length - 1;
  return pieces.map(
    (piece, at) =>
      piece !== "" && (
        <div key={at} className="piece" data-far={(grown && at < last - NEAR) || undefined}>
          <Piece text={piece} growing={growing && at === last} prefix={prefix} />
        </div>
      ),
  );
});
