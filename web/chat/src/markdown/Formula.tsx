/** Formula.tsx -- a formula, drawn by KaTeX, which is fetched for the first one. */

import { memo, useLayoutEffect, useRef, useState } from "react";

type Katex = typeof import("./katex").katex;

let katex: Katex | null = null;
let loading: Promise<Katex> | null = null;

const load = () => (loading ??= import("./katex").then((its) => (katex = its.katex)));

/** A formula may cost no more: an expansion of macros without end, and a rule as wide as the moon. */
const BOUNDS = { maxExpand: 500, maxSize: 20, strict: false, trust: false } as const;
const LONGEST = 10_000; // characters; beyond this the source is shown

export const Formula = memo(({ tex, display }: { tex: string; display: boolean }) => {
  const place = useRef<HTMLSpanElement>(null);
  const [isDrawn, setDrawn] = useState(false);
  useLayoutEffect(() => {
    let isGone = false;
    const draw = (its: Katex) => {
      if (isGone || tex.length > LONGEST) return setDrawn(false);
      try {
        its.render(tex, place.current!, { ...BOUNDS, displayMode: display });
        setDrawn(true);
      } catch {
        setDrawn(false); // not TeX, or not yet: an incomplete formula
      }
    };
    if (katex) draw(katex);
    else load().then(draw, () => (loading = null));
    return () => void (isGone = true);
  }, [tex, display]);
  return (
    <span className="formula" data-display={display || undefined} tabIndex={display ? 0 : undefined}>
      <span ref={place} hidden={!isDrawn} />
      {!isDrawn && <code>{tex}</code>}
    </span>
  );
});
