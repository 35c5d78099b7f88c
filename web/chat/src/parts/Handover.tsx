/** Handover.tsx -- a code for another device: it shows the same conversations there. */

import { handover, linkTo } from "@holdfast/client/sharing";
import { useEffect, useRef, useState } from "react";
import { gateway, home } from "../gateway";
import { handedToken } from "../identity";
import { signOut } from "../signout";
import { sentenceOf, type Wrong } from "../trouble";
import { CopyButton } from "./CopyButton";
import { Code } from "./Code";

interface Props {
  isOpen: boolean;
  close(): void;
}

export function Handover({ isOpen, close }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (isOpen) dialog.current!.showModal();
  }, [isOpen]);
  return (
    <dialog ref={dialog} id="handover-dialog" aria-label="Continue on another device" onClose={close}>
      <h2>Continue on another device</h2>
      {isOpen && <Offer />}
      <div className="row end">
        {handedToken() !== "" && (
          <button type="button" className="quiet" onClick={() => void signOut()}>
            Leave on this device
          </button>
        )}
        <button type="button" className="quiet" onClick={() => dialog.current!.close()}>
          Close
        </button>
      </div>
    </dialog>
  );
}

const LOCAL = /^(localhost|127\.|\[::1\])/;

function Offer() {
  const [offer, setOffer] = useState<{ address: string; expires_at: number } | null>(null);
  const [left, setLeft] = useState(0); // seconds
  const [wrong, setWrong] = useState("");
  const make = () => {
    setOffer(null);
    handover(gateway).then(
      ({ code, expires_at, url }) => setOffer({ address: url ?? linkTo(home, { handover: code }), expires_at }),
      (error: Wrong) => setWrong(error.code === "unsupported" ? "This gateway hands nothing over." : sentenceOf(error)),
    );
  };
  useEffect(make, []);
  useEffect(() => {
    if (!offer) return;
    const look = () => setLeft(Math.max(0, Math.ceil((offer.expires_at - Date.now()) / 1_000)));
    look();
    const timer = setInterval(look, 1_000);
    return () => clearInterval(timer);
  }, [offer]);
  if (wrong !== "") {
    return (
      <p className="outcome trouble" role="alert">
        {wrong}
      </p>
    );
  }
  if (!offer) return <p className="hint">One moment…</p>;
  if (left === 0) {
    return (
      <div className="offer">
        <p>The code is good no more.</p>
        <button id="another" type="button" onClick={make}>
          Make another one
        </button>
      </div>
    );
  }
  return (
    <div className="offer">
      <p>Point the other device’s camera at this, or open the address there. It works once, and brings your conversations along.</p>
      <Code text={offer.address} label="The address, as a code for cameras" />
      <div className="row">
        <span className="hint expiry">
          {Math.floor(left / 60)}:{String(left % 60).padStart(2, "0")} left
        </span>
        <CopyButton label="Copy the address" text={() => offer.address} />
      </div>
      {LOCAL.test(location.host) && (
        <p className="hint">This address is good on this machine alone: open the page by a name that the other device can reach.</p>
      )}
    </div>
  );
}
