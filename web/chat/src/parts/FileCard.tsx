/** FileCard.tsx -- a file: its name, its size, a small picture of it where it is one, and where it stands. */

import type { FilePart } from "@holdfast/client";
import { useEffect, useRef, useState, type ReactNode } from "react";
import { bytesOf, type Attachment } from "../files";
import { save } from "../save";
import { size as inWords } from "../words";
import { Icon } from "./Icon";
import { LargePicture, SmallPicture } from "./Picture";

const SHOWN = 8 << 20; // bytes: of larger pictures there is no small one

/** Browsers draw these; each reads the picture, and runs nothing that may be in it. */
const isPicture = (type: string, size: number) => /^image\/(png|jpeg|gif|webp|avif)$/.test(type) && size <= SHOWN;

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
      {picture && <SmallPicture of={picture} name={name} />}
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

/** A file of the conversation: a click saves it, or shows it large; a picture is fetched when it comes into view. */
export function FileCard({ part, conversationId }: { part: FilePart; conversationId: string }) {
  const { name = "file", media_type = "", size = 0 } = part;
  const [bytes, setBytes] = useState<Blob>();
  const [wrong, setWrong] = useState<string>();
  const [isLarge, setLarge] = useState(false);
  const [isNone, setNone] = useState(false); // no picture after all
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
  const isShown = wants && !isNone;
  const give = async () => {
    try {
      const its = bytes ?? (await bytesOf(conversationId, part));
      setWrong(undefined);
      if (!isShown) return save(name, its);
      setBytes(its);
      setLarge(true);
    } catch {
      setWrong("It cannot be read at the moment.");
    }
  };
  const close = () => {
    setLarge(false);
    place.current?.focus();
  };
  const failed = () => {
    setNone(true);
    close();
    save(name, bytes!);
  };
  return (
    <li className="file" data-file-id={part.file_id}>
      <button ref={place} type="button" className="quiet" title={`${isShown ? "Show" : "Save"} ${name}`} onClick={() => void give()}>
        <Card name={name} size={size} picture={wants ? bytes : undefined} state={wrong} />
      </button>
      {isLarge && bytes && <LargePicture of={bytes} name={name} close={close} failed={failed} />}
    </li>
  );
}
