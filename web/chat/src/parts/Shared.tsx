/** Shared.tsx -- a conversation that somebody shared, by its link: read live, and more where the link allows it. */

import { useCallback, useEffect, useRef, useState } from "react";
import { useAgent } from "../agent";
import { editing } from "../editing";
import { attachmentsOf } from "../files";
import { gateway } from "../gateway";
import { usePage } from "../page";
import { may, type Link } from "../rights";
import { useWatched } from "../watch";
import { Announcer } from "./Announcer";
import { Composer, type Field, type Wish } from "./Composer";
import { ConnectionState } from "./ConnectionState";
import { DropZone } from "./DropZone";
import { LookButton } from "./LookButton";
import { Mark } from "./Mark";
import { runningIn } from "./running";
import { Thread } from "./Thread";
import { WhyNot } from "./WhyNot";

function roleOf({ actor }: Link): string {
  if (!may("ask")) return "Shared with you to read";
  return actor ? `Shared with you: you write as ${actor}` : "Shared with you: you may write here";
}

export function Shared({ link }: { link: Link }) {
  const { state, error } = useWatched(gateway);
  if (link.conversationId === "" || (state === "closed" && error?.code === "unauthorized")) return <Gone />;
  return <Room link={link} />;
}

function Gone() {
  return (
    <main id="gone" className="gate">
      <Mark size={52} />
      <h1>This link is good no more</h1>
      <p>It has expired, or was taken back; or a part of it is missing. Ask for another one where you got it.</p>
    </main>
  );
}

const NONE = () => {};

function Room({ link }: { link: Link }) {
  const conversation = useWatched(gateway.conversation(link.conversationId));
  const { name } = usePage();
  const [title, setTitle] = useState("");
  const field = useRef<Field>(null);
  const { conversations } = gateway;
  useWatched(conversations);
  useEffect(() => {
    void conversation.open().catch(NONE);
    conversations.open();
    return () => {
      conversation.close();
      conversations.close();
    };
  }, [conversation, conversations]);
  const listed = conversations.items.find(({ conversation_id }) => conversation_id === conversation.id)?.title;
  useEffect(() => {
    if (listed) setTitle(listed);
  }, [listed]);
  useEffect(() => {
    document.title = `${title ? `${title} – ` : ""}${name}`;
  });
  const agent = useAgent()?.name;
  const running = may("cancel") ? runningIn(conversation) : undefined;
  const ask = ({ message, agent, background }: Wish) =>
    void conversation.ask(message, { agent, background: background || undefined, when_busy: "enqueue" });
  const take = useCallback(
    (files: Iterable<File>) => {
      attachmentsOf(link.conversationId).add(files);
      field.current?.focus();
    },
    [link],
  );
  return (
    <div id="page" data-shared>
      <main>
        <header id="bar">
          <Mark />
          <h1 id="title">{title || "Conversation"}</h1>
          <span id="role" className="hint">
            {roleOf(link)}
          </span>
          <ConnectionState tasks={conversation.tasks} />
          <LookButton />
        </header>
        <WhyNot />
        <DropZone take={may("ask") ? take : null} />
        <Thread conversation={conversation} ask={(message) => ask({ message, agent, background: false })} edit={(text) => field.current?.put(text)} />
        {may("ask") && (
          <Composer
            ref={field}
            name={`link ${conversation.id}`}
            attachments={attachmentsOf(conversation.id)}
            running={running}
            ask={ask}
            stop={() => void running?.cancel({ tree: true }).catch(NONE)}
            later={null}
            recall={() => editing.recall(conversation)}
          />
        )}
      </main>
      <Announcer conversation={conversation} />
    </div>
  );
}
