/** Code.tsx -- a text as a QR code; what draws it is fetched when the first one is shown. */

import { useEffect, useState } from "react";

const QUIET = 4; // modules around it (ISO 18004)

/** The dark modules, as a path of squares: row by row, what stands side by side together. */
export function pathOf(rows: readonly (readonly boolean[])[]): string {
  let path = "";
  rows.forEach((row, y) => {
    for (let x = 0; x < row.length; x++) {
      if (!row[x]) continue;
      let end = x;
      while (row[end]) end++;
      path += `M${x} ${y}h${end - x}v1h${x - end}z`;
      x = end;
    }
  });
  return path;
}

export function Code({ text, label }: { text: string; label: string }) {
  const [rows, setRows] = useState<readonly (readonly boolean[])[]>([]);
  useEffect(() => {
    let current = true;
    void import("qr").then(({ default: encode }) => current && setRows(encode(text, "raw", { border: QUIET })));
    return () => {
      current = false;
    };
  }, [text]);
  const side = rows.length || 1;
  return (
    <svg className="qr" role="img" aria-label={label} viewBox={`0 0 ${side} ${side}`} shapeRendering="crispEdges" data-ready={rows.length > 0 || undefined}>
      <rect width={side} height={side} fill="#fff" />
      <path d={pathOf(rows)} fill="#000" />
    </svg>
  );
}
