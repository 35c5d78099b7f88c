/** FileCard.tsx -- a file: its name, its size, a small picture of it where it is one, and where it stands. */

import type { FilePart } from "@holdfast/client";
import { useEffect, useRef, useState, type ReactNode } from "react";
import { bytesOf, type Attachment } from "../files";
import { save } from "../save";
import { size as inWords } from "../words";
import { Icon } from "./Icon";

const SHOWN = 8 << 20; // bytes: of larger pictures there is no small one
const HEIGHT = 112; // px of a small picture, twice what is shown

/** Browsers draw these; each reads the picture, and runs nothing that may be in it. */
const isPicture = (type: string, size: number) => /^image\/(png|jpeg|gif|webp|avif)$/.test(type) && size <= SHOWN;

/** Drawn on a canvas: the page's policy lets no address but its own be shown. */
function Picture({ of, name }: { of: Blob; name: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [isDrawn, setDrawn] = useState(false);
  useEffect(() => {
    let isGone = false;
    createImageBitmap(of, { resizeHeight: HEIGHT, resizeQuality: "medium" }).then(
      (picture) => {
        if (isGone || !canvas.current) return picture.close();
        canvas.current.width = picture.width;
        canvas.current.height = picture.height;
        canvas.current.getContext("2d")!.drawImage(picture, 0, 0);
        picture.close();
        setDrawn(true);
      },
      () => {}, // no picture after all
    );
    return () => void (isGone = true);
  }, [of]);
  return <canvas ref={canvas} hidden={!isDrawn} role="img" aria-label={`Picture: ${name}`} />;
}

interface Props {
  name: string;
  size: number;
  picture: Blob | undefined;
  /** Stands in place of its size. */
  state?: string | undefined;
  children?: ReactNode;
}

function Card({ name, size, picture, state, children }: Props) {
  return (
    <>
      {picture && <Picture of={picture} name={name} />}
      <Icon name="file" />
      <span className="file-name" title={name}>
        {name}
      </span>
      <span className="file-size">{state ?? inWords(size)}</span>
      {children}
    </>
  );
}

/** A file at the field: on its way, there, or refused. */
export function AttachmentCard({ its, remove }: { its: Attachment; remove(): void }) {
  const { name, type, size, sent, file, part, wrong } = its;
  const percent = size > 0 ? Math.floor((100 * sent) / size) : 0;
  const state = wrong ?? (part ? undefined : `${percent} %`);
  return (
    <li className="file" data-state={wrong !== undefined ? "refused" : part ? "there" : "sending"}>
      <Card name={name} size={size} picture={file && isPicture(type, size) ? file : undefined} state={state}>
        <button type="button" className="icon-button" aria-label={`Remove ${name}`} onClick={remove}>
          <Icon name="close" />
        </button>
        {!part && wrong === undefined && <progress max={size || 1} value={sent} aria-label={`Upload of ${name}`} />}
      </Card>
    </li>
  );
}

/** A file of the conversation: a click saves it; a picture is fetched when it comes into view. */
export function FileCard({ part, conversationId }: { part: FilePart; conversationId: string }) {
  const { name = "file", media_type = "", size = 0 } = part;
  const [bytes, setBytes] = useState<Blob>();
  const [wrong, setWrong] = useState<string>();
  const place = useRef<HTMLButtonElement>(null);
  const wants = isPicture(media_type, size);
  useEffect(() => {
    if (!wants) return;
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
      watcher.disconnect();
      bytesOf(conversationId, part).then(setBytes, () => {}); // a click says why
    });
    watcher.observe(place.current!);
    return () => watcher.disconnect();
  }, [wants, conversationId, part.file_id]);
  const give = async () => {
    try {
      save(name, bytes ?? (await bytesOf(conversationId, part)));
    } catch {
      setWrong("It cannot be read at the moment.");
    }
  };
  return (
    <li className="file" data-file-id={part.file_id}>
      <button ref={place} type="button" className="quiet" title={`Save ${name}`} onClick={() => void give()}>
        <Card name={name} size={size} picture={wants ? bytes : undefined} state={wrong} />
      </button>
    </li>
  );
}
