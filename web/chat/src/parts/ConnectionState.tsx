/** ConnectionState.tsx -- the state of the connection, and a button to hurry it. */

import type { Task } from "@holdfast/client";
import { useEffect, useRef, useState } from "react";
import { backlogOf } from "../behind";
import { gateway } from "../gateway";
import type { Wrong } from "../trouble";
import { useWatched } from "../watch";
import { number, plural } from "../words";

type Shown = "connecting" | "live" | "waiting" | "offline" | "closed" | "catching-up";

/** Attempts in a row are one wait: the line that tells it does not change with each of them. */
function useSteady({ state, trouble }: typeof gateway) {
  const shown = useRef(state);
  const isFurther = state === "connecting" && trouble !== null && /^(waiting|offline)$/.test(shown.current);
  if (!isFurther) shown.current = state;
  return shown.current;
}

export function ConnectionState({ tasks }: { tasks: readonly Task[] }) {
  const { retryAt, error, outbox } = useWatched(gateway);
  const state = useSteady(gateway);
  const seconds = useSecondsUntil(retryAt, state === "waiting" || state === "offline");
  const backlog = backlogOf(tasks);
  const waiting = outbox.filter((one) => one.state !== "failed").length;
  const shown: Shown = backlog ? "catching-up" : state;

  const words: Record<Shown, string> = {
    connecting: "Connecting",
    live: "Live",
    waiting: "Reconnecting",
    offline: "Offline",
    closed: error ? closedWords(error) : "Closed",
    "catching-up": "Catching up",
  };
  // Texts that change every second are shown, but not read out.
  const details: string[] = [];
  if (backlog) details.push(`${number(backlog.told)} of ${number(backlog.of)}`);
  if (shown === "waiting") details.push(seconds > 0 ? `in ${seconds} s` : "now");
  if (state !== "live" && waiting > 0) {
    details.push(`${shown === "waiting" ? "· " : "with "}${plural(waiting, "message")} waiting`);
  }
  return (
    <div id="connection" data-state={shown}>
      <span className="dot" aria-hidden="true" />
      <span id="connection-text">
        <span role="status">{words[shown]}</span>
        {details.length > 0 && <span className="detail"> {details.join(" ")}</span>}
      </span>
      {state !== "live" && state !== "connecting" && (
        <button id="reconnect" type="button" className="quiet" onClick={() => gateway.retry()}>
          {state === "closed" ? "Try again" : "Now"}
        </button>
      )}
    </div>
  );
}

/** In few words: what to do stands in the page, or beside it. */
const closedWords = ({ code }: Wrong) => (code === "unauthorized" ? "Signed out" : "Closed by the gateway");

function useSecondsUntil(time: number, counts: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!counts) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [time, counts]);
  return Math.max(0, Math.ceil((time - now) / 1_000));
}
