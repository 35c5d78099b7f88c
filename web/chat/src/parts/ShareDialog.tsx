/** ShareDialog.tsx -- the links to one conversation: makes one, and takes others back. */

import type { Right, Share } from "@holdfast/client";
import { linkTo, share, shares, unshare } from "@holdfast/client/sharing";
import { useCallback, useEffect, useRef, useState, type FormEvent } from "react";
import { gateway, home } from "../gateway";
import { sentenceOf, type Wrong } from "../trouble";
import { clock } from "../words";
import { CopyButton } from "./CopyButton";
import { Icon } from "./Icon";

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000; // so that a year is none too long for the gateway's clock
const LASTS = { "a day": 1, "a week": 7, "a month": 30, "a year": 365 };
const WRITER: readonly Right[] = ["read", "ask", "answer", "cancel"];

interface Props {
  /** Null: it is closed. */
  conversation: { id: string; title: string } | null;
  close(): void;
}

export function ShareDialog({ conversation, close }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = conversation !== null;
  useEffect(() => {
    if (isOpen) dialog.current!.showModal();
  }, [isOpen]);
  return (
    <dialog ref={dialog} id="share-dialog" aria-label="Share the conversation" onClose={close}>
      {conversation && <Links {...conversation} />}
      <div className="row end">
        <button type="button" className="quiet" onClick={() => dialog.current!.close()}>
          Close
        </button>
      </div>
    </dialog>
  );
}

function Links({ id, title }: { id: string; title: string }) {
  const [list, setList] = useState<readonly Share[] | null>(null);
  const [made, setMade] = useState("");
  const [wrong, setWrong] = useState("");
  const fail = (error: Wrong) =>
    setWrong(error.code === "unsupported" ? "This gateway shares nothing." : sentenceOf(error));
  const look = useCallback(() => {
    shares(gateway, id).then(setList, fail);
  }, [id]);
  useEffect(look, [look]);
  const make = (rights: readonly Right[], actor: string, days: number) =>
    share(gateway, id, { rights, expires_at: Date.now() + days * DAY_MS - MINUTE_MS, ...(actor && { actor }) }).then(({ token, url }) => {
      setWrong("");
      setMade(url ?? linkTo(home, { share: token })); // the operator's address is the public one
      look();
    }, fail);
  const revoke = (its: Share) => unshare(gateway, its.share_id).then(() => (setMade(""), look()), fail);
  return (
    <>
      <h2>Share “{title}”</h2>
      <Maker make={make} />
      {made !== "" && (
        <div className="made">
          <input id="link" type="text" readOnly aria-label="The link" value={made} onFocus={({ target }) => target.select()} />
          <CopyButton label="Copy the link" text={() => made} />
          <p className="hint">It is shown this once. Whoever has it may use it, without signing in.</p>
        </div>
      )}
      {wrong !== "" && (
        <p className="outcome trouble" role="alert">
          {wrong}
        </p>
      )}
      {list !== null && list.length > 0 && (
        <>
          <h3>Links that are good now</h3>
          <ul className="schedules shares">
            {list.map((its) => (
              <li key={its.share_id} data-share-id={its.share_id}>
                <div>
                  <p className="title">{nameOf(its)}</p>
                  <p className="hint">
                    made {clock(its.created_at)} · until {clock(its.expires_at)}
                  </p>
                </div>
                <button type="button" className="quiet danger" aria-label={`Take back: ${nameOf(its)}`} onClick={() => void revoke(its)}>
                  Take back
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
      {list?.length === 0 && <p className="hint">Nobody else can read this conversation.</p>}
    </>
  );
}

function nameOf({ rights, actor }: Share): string {
  const does = rights.includes("ask") ? "reads and writes" : "reads";
  return actor ? `${actor} ${does}` : `Whoever has the link ${does}`;
}

function Maker({ make }: { make(rights: readonly Right[], actor: string, days: number): Promise<unknown> }) {
  const [writes, setWrites] = useState(false);
  const [actor, setActor] = useState("");
  const [lasts, setLasts] = useState("a week");
  const [busy, setBusy] = useState(false);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    const days = LASTS[lasts as keyof typeof LASTS];
    void make(writes ? WRITER : ["read"], writes ? actor.trim() : "", days).finally(() => setBusy(false));
  };
  return (
    <form onSubmit={submit}>
      <div className="row">
        <select aria-label="What the link is good for" value={String(writes)} onChange={({ target }) => setWrites(target.value === "true")}>
          <option value="false">Reads it, live</option>
          <option value="true">Reads and writes</option>
        </select>
        <select aria-label="How long it is good" value={lasts} onChange={({ target }) => setLasts(target.value)}>
          {Object.keys(LASTS).map((name) => (
            <option key={name} value={name}>
              for {name}
            </option>
          ))}
        </select>
        {writes && (
          <input type="text" aria-label="Who writes" placeholder="Who writes" maxLength={40} required value={actor} onChange={({ target }) => setActor(target.value)} />
        )}
      </div>
      <div className="row">
        <button type="submit" disabled={busy}>
          <Icon name="link" /> Make a link
        </button>
      </div>
    </form>
  );
}
