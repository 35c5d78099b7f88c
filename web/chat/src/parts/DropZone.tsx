/** DropZone.tsx -- the whole page takes files that are dropped or pasted, and says so while they hang over it. */

import { useEffect, useState } from "react";
import { isWriting } from "../keyboard";
import { Icon } from "./Icon";

const hasFiles = ({ dataTransfer }: DragEvent) => dataTransfer?.types.includes("Files") ?? false;

export function DropZone({ take }: { take(files: Iterable<File>): void }) {
  const [isOver, setOver] = useState(false);
  useEffect(() => {
    const ending = new AbortController();
    const on = (name: "dragover" | "dragleave" | "drop", does: (event: DragEvent) => void) =>
      addEventListener(name, does, ending);
    on("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      event.dataTransfer!.dropEffect = "copy";
      setOver(true);
    });
    on("dragleave", ({ relatedTarget }) => relatedTarget === null && setOver(false));
    on("drop", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault(); // or the browser leaves the page, to show the file
      setOver(false);
      take(event.dataTransfer!.files);
    });
    addEventListener(
      "paste",
      (event) => {
        const files = event.clipboardData?.files ?? [];
        if (event.defaultPrevented || isWriting(event.target) || files.length === 0) return; // a field takes its own
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
