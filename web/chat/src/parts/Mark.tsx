/** Mark.tsx -- the mark of the page: the operator's, or the holdfast itself. */

import { usePage } from "../page";

export function Mark({ size = 26 }: { size?: number }) {
  const { mark } = usePage();
  if (mark) return <img className="own-mark" src={mark} width={size} height={size} alt="" />;
  return (
    <svg className="brand-mark" viewBox="0 0 32 32" width={size} height={size} aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M16 5c-3 4 3 6 0 10m0 0c-1 4-6 4-8 11m8-11c0 5-1 7-1 11m1-11c1 4 6 4 8 11" />
    </svg>
  );
}
