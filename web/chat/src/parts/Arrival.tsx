/** Arrival.tsx -- the page of a device to which another one hands over: it asks before it takes anything. */

import { MemoryStore } from "@holdfast/client";
import { takeOver } from "@holdfast/client/sharing";
import { useEffect, useState } from "react";
import { address, gateway } from "../gateway";
import { keepHanded } from "../identity";
import { usePage } from "../page";
import { sentenceOf, type Wrong } from "../trouble";
import { useWatched } from "../watch";
import { plural } from "../words";
import { Mark } from "./Mark";

export function Arrival({ code }: { code: string }) {
  const { name } = usePage();
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState("");
  const list = useWatched(gateway.conversations);
  useEffect(() => {
    list.open();
    return () => list.close();
  }, [list]);
  const leave = () => {
    history.replaceState(null, "", location.pathname + location.search);
    location.reload();
  };
  const take = async () => {
    setBusy(true);
    try {
      // This browser's own guest stays where it is kept.
      return keepHanded(await takeOver(address, code, { store: new MemoryStore() }));
    } catch (error) {
      const { code: why = "" } = error as Wrong;
      if (why === "not_found") setWrong("This code is good no more: it works once, and for two minutes. Make another one.");
      else setWrong(why === "" ? "The gateway does not answer. Try again." : sentenceOf(error as Wrong));
    }
    setBusy(false);
  };
  return (
    <main id="arrival" className="gate">
      <Mark size={52} />
      <h1>Continue here?</h1>
      <p>Another device hands its conversations in {name} over to this browser. Continue only if that device is yours.</p>
      {list.items.length > 0 && (
        <p className="hint">
          This browser’s own {plural(list.items.length, "conversation")} stay, and are listed again when you leave.
        </p>
      )}
      {wrong !== "" && (
        <p className="trouble" role="alert">
          {wrong}
        </p>
      )}
      <div className="row">
        <button type="button" autoFocus disabled={busy} onClick={() => void take()}>
          Continue here
        </button>
        <button type="button" className="quiet" onClick={leave}>
          No
        </button>
      </div>
    </main>
  );
}
