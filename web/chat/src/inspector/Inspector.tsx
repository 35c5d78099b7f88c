/**
 * Inspector.tsx -- a task's stream as it arrived: on a time line, scrubbed, replayed, saved,
 * opened.
 */

import type { Task } from "@holdfast/client";
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { gateway } from "../gateway";
import { ConnectionState } from "../parts/ConnectionState";
import { Icon } from "../parts/Icon";
import { LookButton } from "../parts/LookButton";
import { Mark } from "../parts/Mark";
import { SignIn } from "../parts/SignIn";
import { SignedOut } from "../parts/WhyNot";
import { Work } from "../parts/Work";
import { usePage } from "../page";
import { save as saveFile } from "../save";
import { useWatched } from "../watch";
import { duration, plural } from "../words";
import { Chooser } from "./Chooser";
import { Connection } from "./Connection";
import { EventList } from "./EventList";
import { usePlayer } from "./player";
import { Recording } from "./recording";
import { Timeline } from "./Timeline";

const SPEEDS = [1, 10];
const ADDRESS = /^#([A-Za-z0-9][A-Za-z0-9._-]{0,127})\/([0-9A-Z]{26})$/;

const CONNECTION = "#connection";

const onHash = (listener: () => void) => {
  addEventListener("hashchange", listener);
  return () => removeEventListener("hashchange", listener);
};

/** The events of the task in the page's address as they arrive, each piece by itself; after a new sign-in they go on. */
function useStream(address: string, isClosed: boolean): { recording: Recording | null; trouble: string } {
  const [, conversationId, taskId] = useMemo(() => ADDRESS.exec(address) ?? [], [address]);
  const recording = useMemo(() => (taskId ? new Recording() : null), [conversationId, taskId]);
  const [trouble, setTrouble] = useState("");
  useEffect(() => {
    setTrouble("");
    if (!recording || isClosed) return;
    const after = recording.events.at(-1)?.seq;
    const events = gateway.task(conversationId!, taskId!).events({ exact: true, after });
    const read = async () => {
      for await (const event of events) recording.add(event);
    };
    read().catch((error) => setTrouble(error.message));
    return () => void events.return();
  }, [recording, conversationId, taskId, isClosed]);
  return { recording, trouble };
}

export function Inspector() {
  const address = useSyncExternalStore(onHash, () => location.hash);
  const isConnection = address === CONNECTION;
  const streamAddress = useRef(address); // continues while the connection is shown
  if (!isConnection) streamAddress.current = address;
  const { state, error } = useWatched(gateway);
  const isClosed = state === "closed" && error?.code === "unauthorized";
  const stream = useStream(streamAddress.current, isClosed);
  const [file, setFile] = useState<{ name: string; recording: Recording } | null>(null);
  const [trouble, setTrouble] = useState("");
  useEffect(() => setFile(null), [streamAddress.current]);
  const { name } = usePage();
  useEffect(() => {
    document.title = `Stream inspector – ${name}`;
  }, [name]);
  const [signsIn, setSignsIn] = useState(false);
  useEffect(() => {
    if (!isClosed) setSignsIn(false);
  }, [isClosed]);

  const open = async (chosen: File | undefined) => {
    if (!chosen) return;
    try {
      setFile({ name: chosen.name, recording: Recording.ofLines(await chosen.text()) });
      setTrouble("");
    } catch (error) {
      setTrouble(`${chosen.name}: ${(error as Error).message}`);
    }
  };
  const recording = file?.recording ?? stream.recording;
  const told = trouble || (file || isClosed ? "" : stream.trouble);
  const isSignedOut = isClosed && !file && (signsIn || !stream.recording?.length);
  return (
    <div
      id="inspector"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void open(event.dataTransfer.files[0]);
      }}
    >
      <header id="bar">
        <a className="brand" href="./" aria-label="To the chat">
          <Mark />
        </a>
        <h1>Inspector</h1>
        <nav aria-label="Inspector">
          <a href={isConnection && streamAddress.current !== CONNECTION ? streamAddress.current || "#" : "#"} aria-current={isConnection ? undefined : "page"}>
            Streams
          </a>
          <a href={CONNECTION} aria-current={isConnection ? "page" : undefined}>
            Connection
          </a>
        </nav>
        {file && <code className="file">{file.name}</code>}
        <ConnectionState tasks={[]} />
        <OpenButton open={open} />
        {recording && <SaveButton recording={recording} />}
        <LookButton />
      </header>
      <main>
        {told !== "" && (
          <p className="trouble" role="alert">
            {told}
          </p>
        )}
        {isClosed && !isSignedOut && !file && !isConnection && (
          <SignedOut signIn={() => setSignsIn(true)}>The stream is shown as far as it had come: save it to keep it.</SignedOut>
        )}
        {isConnection ? <Connection /> : isSignedOut ? <SignIn /> : recording ? <Desk key={file?.name ?? address} recording={recording} /> : <Chooser />}
      </main>
    </div>
  );
}

function OpenButton({ open }: { open(file: File | undefined): void }) {
  const field = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" className="quiet" onClick={() => field.current!.click()}>
        <Icon name="open" /> Open
      </button>
      <input
        ref={field}
        id="file"
        type="file"
        accept=".jsonl,.ndjson,application/jsonl"
        hidden
        onChange={({ target }) => {
          open(target.files?.[0]);
          target.value = "";
        }}
      />
    </>
  );
}

function SaveButton({ recording }: { recording: Recording }) {
  const save = () => {
    const lines = new Blob([recording.toLines()], { type: "application/jsonl" });
    saveFile(`${recording.events[0]?.task_id ?? "stream"}.jsonl`, lines);
  };
  return (
    <button id="save" type="button" className="quiet" onClick={save}>
      <Icon name="save" /> Save
    </button>
  );
}

function Desk({ recording }: { recording: Recording }) {
  useWatched(recording);
  const player = usePlayer(recording.duration);
  const count = recording.countAt(player.at);
  const state = recording.stateAt(count);
  const event = recording.events[count - 1];
  const ending = state.ending;
  const task = { transcript: state, summary: {}, status: ending?.status ?? "running", live: !ending };
  return (
    <>
      <section className="deck" aria-label="Time line">
        <div className="row" role="group" aria-label="Replay">
          {player.playing ? (
            <button id="pause" type="button" onClick={player.pause}>
              <Icon name="pause" /> Pause
            </button>
          ) : (
            SPEEDS.map((speed) => (
              <button key={speed} type="button" data-speed={speed} onClick={() => player.play(speed)}>
                <Icon name="play" /> {speed}×
              </button>
            ))
          )}
          <output id="place">
            event {event?.seq ?? 0} of {recording.events.at(-1)?.seq ?? 0}
          </output>
          <span className="hint">
            {duration(player.at)} of {duration(recording.duration)} · {plural(recording.length, "line")}
          </span>
        </div>
        <Timeline recording={recording} version={recording.version} at={player.at} seek={player.seek} />
      </section>
      <div className="desk">
        <EventList recording={recording} count={count} seek={player.seek} />
        <section className="state" aria-label="What had been said then">
          {state.input !== null && <div className="asked">{state.input}</div>}
          <div className="told" data-status={task.status}>
            <Work said={{ text: state.text, partial: false, task: task as unknown as Task }} all={[]} />
          </div>
        </section>
      </div>
    </>
  );
}
