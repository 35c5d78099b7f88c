/**
 * DropZone.tsx -- the whole page takes files that are dropped or pasted, and says so while they hang over it.  Where
 * nothing takes them, a drop does nothing: else the browser would leave the page, to show the file.
 */

import { useEffect, useState } from "react";
import { isWriting } from "../keyboard";
import { Icon } from "./Icon";

const hasFiles = ({ dataTransfer }: DragEvent) => dataTransfer?.types.includes("Files") ?? false;

/** The field is below a dialog: files are not meant for it. */
const isCovered = () => document.querySelector("dialog[open]") !== null;

export function DropZone({ take }: { take: ((files: Iterable<File>) => void) | null }) {
  const [isOver, setOver] = useState(false);
  useEffect(() => {
    const ending = new AbortController();
    const on = (name: "dragover" | "dragleave" | "drop", does: (event: DragEvent) => void) =>
      addEventListener(name, does, ending);
    on("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      const takes = take !== null && !isCovered();
      event.dataTransfer!.dropEffect = takes ? "copy" : "none";
      setOver(takes);
    });
    on("dragleave", ({ relatedTarget }) => relatedTarget === null && setOver(false));
    on("drop", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(false);
      if (!isCovered()) take?.(event.dataTransfer!.files);
    });
    addEventListener(
      "paste",
      (event) => {
        const files = event.clipboardData?.files ?? [];
        if (event.defaultPrevented || isWriting(event.target) || files.length === 0) return; // a field takes its own
        if (!take || isCovered()) return;
        event.preventDefault();
        take(files);
      },
      ending,
    );
    return () => ending.abort();
  }, [take]);
  if (!isOver) return null;
  return (
    <div id="drop" aria-hidden="true">
      <Icon name="clip" /> Drop the files to attach them
    </div>
  );
}
