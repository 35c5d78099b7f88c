/** App.tsx -- the chat page: conversations at the side, the open one in the middle, its tray. */

import type { Conversation } from "@holdfast/client";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { flushSync } from "react-dom";
import { useAgent } from "./agent";
import { editing } from "./editing";
import { hasFiles } from "./fieldfiles";
import { attachmentsOf } from "./files";
import { gateway } from "./gateway";
import { watchForNews } from "./notify";
import { Announcer } from "./parts/Announcer";
import { Bar } from "./parts/Bar";
import { ConversationMenu, type Target } from "./parts/ConversationMenu";
import { Composer, type Field, type Wish } from "./parts/Composer";
import { DropZone } from "./parts/DropZone";
import { Handover } from "./parts/Handover";
import { runningIn } from "./parts/running";
import { Schedules } from "./parts/Schedules";
import type { Target as Sought } from "./parts/Search";
import { ShareDialog } from "./parts/ShareDialog";
import { Shortcuts } from "./parts/Shortcuts";
import { inOrder, Side } from "./parts/Side";
import { SignIn } from "./parts/SignIn";
import { Thread } from "./parts/Thread";
import { inTray, Tray, useFresh } from "./parts/Tray";
import { ofTab, read, write as keep } from "./kept";
import { usePage } from "./page";
import { SignedOut, WhyNot } from "./parts/WhyNot";
import { goTo, useConversationId } from "./route";
import { useWatched } from "./watch";

const NEW = "holdfast.new";

/** A new one; after a reload the one whose files stand at the field. */
function newConversation(): Conversation {
  const kept = read(ofTab, NEW);
  const conversation = gateway.conversation(kept && hasFiles(kept) ? kept : undefined);
  keep(ofTab, NEW, conversation.id);
  return conversation;
}

/** The conversation with this id, or one that begins with the first message, kept open. */
function useOpen(id: string | null): Conversation {
  const unnamed = useRef<Conversation>(null);
  const conversation = useMemo(() => {
    if (id !== null) return gateway.conversation(id);
    return (unnamed.current = newConversation());
  }, [id]);
  useEffect(() => {
    void conversation.open().catch(() => {});
    const end = watchForNews(conversation);
    return () => {
      end();
      conversation.close();
    };
  }, [conversation]);
  return conversation;
}

/** Leaves a conversation that was deleted elsewhere. */
function useLeaveWhenGone(id: string | null) {
  const list = useWatched(gateway.conversations);
  const seen = useRef<string | null>(null);
  const isThere = list.items.some(({ conversation_id }) => conversation_id === id);
  useEffect(() => {
    if (isThere) seen.current = id;
    else if (id !== null && seen.current === id && list.loaded && !list.hasOlder) goTo(null);
  }, [id, isThere, list.loaded, list.hasOlder]);
  return list.items.find(({ conversation_id }) => conversation_id === id)?.title;
}

export function App() {
  const id = useConversationId();
  const conversation = useOpen(id);
  const title = useLeaveWhenGone(id);
  const [side, setSide] = useState(false);
  const [tray, setTray] = useState(false);
  const [later, setLater] = useState<string | null>(null);
  const [menuOf, setMenuOf] = useState<Target | null>(null);
  const [shared, setShared] = useState<Target | null>(null);
  const [isHandedOver, setHandedOver] = useState(false);
  const [sought, setSought] = useState<Sought | null>(null);
  const field = useRef<Field>(null);
  const { fresh, acknowledge } = useFresh(conversation);
  const inBackground = inTray(conversation.tasks).filter(({ live }) => live).length;
  const running = runningIn(conversation);
  const agent = useAgent()?.name;
  const { name } = usePage();
  const { state, error } = useWatched(gateway);
  const isClosed = state === "closed" && error?.code === "unauthorized";
  const [signsIn, setSignsIn] = useState(false);
  const isSignedOut = isClosed && (signsIn || !conversation.loaded);
  useEffect(() => {
    if (!isClosed) setSignsIn(false); // the next end of a token takes nothing away either
  }, [isClosed]);

  useEffect(() => {
    const work = conversation.tasks.some(({ live }) => live) ? "● " : "";
    document.title = `${work}${title ? `${title} – ` : ""}${name}`;
  });

  const write = useCallback(() => field.current?.focus(), []);
  const search = useCallback(() => {
    const field = document.getElementById("search")!;
    const isThere = field.checkVisibility({ visibilityProperty: true });
    if (!isThere) flushSync(() => setSide(true));
    field.focus();
  }, []);
  const begin = useCallback(() => {
    goTo(null);
    setSide(false);
    write();
  }, [write]);
  const gone = (deleted: string) => {
    if (deleted === id) goTo(null);
    setSide(false);
    write();
  };
  const toggleTray = useCallback(() => setTray((open) => !open), []);
  const closeTray = () => {
    setTray(false);
    document.getElementById("tray-button")?.focus();
  };
  const step = useCallback(
    (by: number) => {
      const items = inOrder(gateway.conversations.items);
      const at = items.findIndex(({ conversation_id }) => conversation_id === id);
      const next = items[at + by];
      if (next) goTo(next.conversation_id);
    },
    [id],
  );
  const stop = useCallback(() => {
    void runningIn(conversation)?.cancel({ tree: true }).catch(() => {});
  }, [conversation]);
  const escape = useCallback(() => {
    if (!side && !tray) return stop();
    setSide(false);
    setTray(false);
    write();
  }, [side, tray, stop, write]);
  const attachments = attachmentsOf(conversation.id);
  const take = useCallback(
    (files: Iterable<File>) => {
      attachments.add(files);
      write();
    },
    [attachments, write],
  );
  const closeLater = () => {
    setLater(null);
    write();
  };
  const edit = useCallback((text: string) => field.current?.put(text), []);

  const ask = ({ message, agent, background }: Wish) => {
    conversation.ask(message, { agent, background: background || undefined, when_busy: "enqueue" });
    if (id === null) goTo(conversation.id);
    if (background) setTray(true);
  };
  return (
    <div id="page" data-side={side || undefined} data-tray={tray || undefined}>
      {!isSignedOut && (
        <a className="skip" href="#message" onClick={(event) => (event.preventDefault(), write())}>
          To the message field
        </a>
      )}
      <Side
        current={id}
        begin={begin}
        leave={() => setSide(false)}
        showMenu={setMenuOf}
        go={setSought}
        handOver={() => setHandedOver(true)}
      />
      {side && <div id="shade" onClick={() => setSide(false)} />}
      <main>
        <Bar
          conversation={conversation}
          isNew={id === null}
          menu={{ open: side, show: () => setSide(true) }}
          tray={{ open: tray, toggle: toggleTray, running: inBackground, fresh: fresh.size }}
          showMenu={setMenuOf}
        />
        {isClosed && !isSignedOut ? (
          <SignedOut signIn={() => setSignsIn(true)}>What you write is kept, and sent when you are back.</SignedOut>
        ) : (
          <WhyNot />
        )}
        <DropZone take={isSignedOut ? null : take} />
        {isSignedOut ? (
          <SignIn />
        ) : (
          <>
            <Thread
              key={conversation.id}
              conversation={conversation}
              ask={(message) => ask({ message, agent, background: false })}
              edit={edit}
              sought={sought?.conversationId === conversation.id ? sought : null}
            />
            <Composer ref={field} name={id ?? ""} attachments={attachments} running={running} ask={ask} stop={stop} later={setLater} recall={() => editing.recall(conversation)} />
          </>
        )}
      </main>
      {tray && <Tray conversation={conversation} fresh={fresh} acknowledge={acknowledge} close={closeTray} />}
      <Schedules text={later} conversationId={id} close={closeLater} done={() => field.current?.clear()} />
      <ConversationMenu target={menuOf} gone={gone} share={setShared} />
      <ShareDialog
        conversation={shared}
        close={() => {
          shared?.from.focus();
          setShared(null);
        }}
      />
      <Handover isOpen={isHandedOver} close={() => setHandedOver(false)} />
      <Announcer key={conversation.id} conversation={conversation} />
      <Shortcuts write={write} search={search} begin={begin} tray={toggleTray} step={step} escape={escape} />
    </div>
  );
}
