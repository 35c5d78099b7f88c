/**
 * Markdown.tsx -- an answer as it is meant, while it is still coming.
 *
 * Text from anywhere becomes React's elements, never HTML: there is no place where a script could
 * enter.  rehype-sanitize stands behind that once more.  A text that grows is cut (blocks.ts), so
 * that only its last piece is read again; what is not closed there yet is closed for now (remend).
 */

import { memo, useRef } from "react";
import ReactMarkdown, { type Components, type Options } from "react-markdown";
import rehypeSanitize from "rehype-sanitize";
import remarkGfm from "remark-gfm";
import remend from "remend";
import { Blocks } from "./blocks";
import { CodeBlock } from "./CodeBlock";
import { colourCode } from "./colour";
import { htmlAsText } from "./plain";

const options: Options = {
  remarkPlugins: [remarkGfm, htmlAsText],
  rehypePlugins: [rehypeSanitize, colourCode],
};

const components: Components = {
  pre: ({ children }) => <CodeBlock>{children}</CodeBlock>,
  a: ({ node: _, ...link }) => <a {...link} target="_blank" rel="noopener noreferrer nofollow" />,
  // Not loaded: a picture from elsewhere would tell that somebody reads this.
  img: ({ src, alt }) => (
    <a href={typeof src === "string" ? src : undefined} target="_blank" rel="noopener noreferrer nofollow">
      {alt || "picture"}
    </a>
  ),
  table: ({ node: _, ...table }) => (
    <div className="table" tabIndex={0} role="region" aria-label="Table">
      <table {...table} />
    </div>
  ),
};

const Piece = memo(({ text }: { text: string }) => (
  <ReactMarkdown {...options} components={components}>
    {text}
  </ReactMarkdown>
));

export function Markdown({ text, growing }: { text: string; growing: boolean }) {
  const blocks = useRef<Blocks>(null);
  blocks.current ??= new Blocks();
  const pieces = blocks.current.of(text);
  const last = pieces.length - 1;
  return pieces.map((piece, at) => (
    <Piece key={at} text={growing && at === last ? remend(piece) : piece} />
  ));
}
