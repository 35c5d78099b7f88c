/** Picture.tsx -- a picture of a file's bytes: small in its card, or large above the page. */

import { useEffect, useRef, useState } from "react";
import { save } from "../save";

const SMALL = 112; // px of a small picture's height, twice what is shown
const LARGE = 4096; // px of a large one's longer side

/**
 * Drawn on a canvas: the page's policy lets no address but its own be shown.
 * @param failed called when it is no picture after all
 */
function Canvas({ of, name, isLarge, failed }: { of: Blob; name: string; isLarge: boolean; failed?(): void }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [isDrawn, setDrawn] = useState(false);
  useEffect(() => {
    let isGone = false;
    const options: ImageBitmapOptions = isLarge ? {} : { resizeHeight: SMALL, resizeQuality: "medium" };
    createImageBitmap(of, options).then(
      (picture) => {
        if (isGone || !canvas.current) return picture.close();
        const scale = Math.min(1, LARGE / Math.max(picture.width, picture.height));
        const [width, height] = [Math.max(1, picture.width * scale), Math.max(1, picture.height * scale)];
        canvas.current.width = width;
        canvas.current.height = height;
        canvas.current.getContext("2d")!.drawImage(picture, 0, 0, width, height);
        picture.close();
        setDrawn(true);
      },
      () => isGone || failed?.(),
    );
    return () => void (isGone = true);
  }, [of]);
  return <canvas ref={canvas} hidden={!isDrawn} role="img" aria-label={`Picture: ${name}`} />;
}

export const SmallPicture = ({ of, name }: { of: Blob; name: string }) => <Canvas of={of} name={name} isLarge={false} />;

interface Props {
  of: Blob;
  name: string;
  /** It was closed: by its button, Escape, or a click beside it. */
  close(): void;
  failed(): void;
}

export function LargePicture({ of, name, close, failed }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current!.showModal(), []);
  const onClick = ({ target }: { target: unknown }) => target === dialog.current && dialog.current!.close();
  return (
    <dialog ref={dialog} className="large-picture" aria-label={`Picture: ${name}`} onClose={close} onClick={onClick}>
      <div className="large-picture-content">
        <Canvas of={of} name={name} isLarge failed={failed} />
        <div className="row end">
          <span className="file-name">{name}</span>
          <button type="button" className="quiet" onClick={() => save(name, of)}>
            Save
          </button>
          <button type="button" autoFocus onClick={() => dialog.current!.close()}>
            Close
          </button>
        </div>
      </div>
    </dialog>
  );
}
