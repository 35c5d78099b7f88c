/** App.tsx -- the chat page: conversations at the side, the open one in the middle, its tray. */

import type { Conversation } from "@holdfast/client";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { gateway } from "./gateway";
import { watchForNews } from "./notify";
import { Announcer } from "./parts/Announcer";
import { Bar } from "./parts/Bar";
import { Composer, type Wish } from "./parts/Composer";
import { Shortcuts } from "./parts/Shortcuts";
import { Side } from "./parts/Side";
import { Thread } from "./parts/Thread";
import { inTray, Tray, useFresh } from "./parts/Tray";
import { goTo, useConversationId } from "./route";
import { useWatched } from "./watch";

/** The conversation of this id, or one that begins with the first message, kept open. */
function useOpen(id: string | null): Conversation {
  const unnamed = useRef<Conversation>(null);
  const conversation = useMemo(() => {
    if (id !== null) return gateway.conversation(id);
    return (unnamed.current = gateway.conversation());
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
  const field = useRef<HTMLTextAreaElement>(null);
  const { fresh, acknowledge } = useFresh(conversation);
  const running = inTray(conversation.tasks).filter(({ live }) => live).length;

  useEffect(() => {
    const work = conversation.tasks.some(({ live }) => live) ? "● " : "";
    document.title = `${work}${title ? `${title} – ` : ""}Holdfast`;
  });

  const write = useCallback(() => field.current?.focus(), []);
  const begin = useCallback(() => {
    goTo(null);
    setSide(false);
    write();
  }, [write]);
  const toggleTray = useCallback(() => setTray((open) => !open), []);
  const escape = useCallback(() => {
    setSide(false);
    setTray(false);
  }, []);

  const ask = ({ message, agent, background }: Wish) => {
    conversation.ask(message, { agent, background: background || undefined, when_busy: "enqueue" });
    if (id === null) goTo(conversation.id);
    if (background) setTray(true);
  };
  return (
    <div id="page" data-side={side || undefined} data-tray={tray || undefined}>
      <a className="skip" href="#message" onClick={(event) => (event.preventDefault(), write())}>
        To the message field
      </a>
      <Side current={id} begin={begin} leave={() => setSide(false)} />
      {side && <div id="shade" onClick={() => setSide(false)} />}
      <main>
        <Bar
          conversation={conversation}
          isNew={id === null}
          menu={{ open: side, show: () => setSide(true) }}
          tray={{ open: tray, toggle: toggleTray, running, fresh: fresh.size }}
          gone={() => goTo(null)}
        />
        <Thread
          key={conversation.id}
          conversation={conversation}
          ask={(message) => ask({ message, agent: undefined, background: false })}
        />
        <Composer ref={field} name={id ?? ""} ask={ask} />
      </main>
      {tray && <Tray conversation={conversation} fresh={fresh} acknowledge={acknowledge} close={toggleTray} />}
      <Announcer key={conversation.id} conversation={conversation} />
      <Shortcuts write={write} begin={begin} tray={toggleTray} escape={escape} />
    </div>
  );
}
