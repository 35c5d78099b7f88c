/** Thread.tsx -- the open conversation, turn by turn; it follows the text while its end is in view. */

import type { Conversation, Task } from "@holdfast/client";
import { useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react";
import { useStickToBottom } from "use-stick-to-bottom";
import { may } from "../rights";
import { bring, mark } from "../search";
import { useWatched } from "../watch";
import { Icon } from "./Icon";
import type { Target } from "./Search";
import { TurnView, versionOf } from "./TurnView";
import { Welcome } from "./Welcome";

interface Props {
  conversation: Conversation;
  ask(text: string): void;
  edit(text: string): void;
  /** The message to show, which was searched for. */
  sought?: Target | null;
}

/** Goes to a message that was searched for, and marks it. */
function useSought(conversation: Conversation, sought: Target | null, stop: () => void) {
  useEffect(() => {
    if (!sought) return;
    let current = true;
    void bring(conversation, sought.messageId)
      .catch(() => null)
      .then((key) => key !== null && requestAnimationFrame(() => current && show(key)));
    const show = (key: string) => {
      const turn = document.querySelector<HTMLElement>(`.turn[data-key="${CSS.escape(key)}"]`);
      if (!turn) return;
      stop();
      turn.scrollIntoView({ block: "start" });
      turn.dataset.found = "";
      mark(turn, sought.query);
    };
    return () => {
      current = false;
      mark(null, "");
      for (const each of document.querySelectorAll<HTMLElement>(".turn[data-found]")) delete each.dataset.found;
    };
  }, [conversation, sought, stop]);
}

export function Thread({ conversation, ask, edit, sought = null }: Props) {
  useWatched(conversation);
  const { turns, tasks } = conversation;
  const children = byParent(tasks);
  const isEmpty = turns.length === 0 && conversation.loaded;
  return (
    <Followed conversation={conversation} isEmpty={isEmpty && isNew(conversation)} sought={sought}>
      <Earlier conversation={conversation} first={turns[0]?.key} />
      {isEmpty && <Nothing conversation={conversation} ask={ask} />}
      <div id="turns" role="log" aria-live="off">
        {turns.map((turn) => (
          <TurnView
            key={turn.key}
            turn={turn}
            conversation={conversation}
            tasks={tasks}
            edit={edit}
            version={versionOf(turn, children.get(turn.key) ?? [], conversation)}
          />
        ))}
      </div>
    </Followed>
  );
}

interface FollowedProps {
  conversation: Conversation;
  isEmpty: boolean;
  sought: Target | null;
  children: ReactNode;
}

/**
 * The part that scrolls.  Each frame of a growing text moves its end out of view and into it again, and changes
 * the state of what follows it: that renders this component, and not the turns, which nothing may
 * render between two frames.
 */
function Followed({ conversation, isEmpty, sought, children }: FollowedProps) {
  const { scrollRef, contentRef, isAtBottom, scrollToBottom, stopScroll } = useStickToBottom({
    initial: "instant",
    resize: "instant",
  });
  useSought(conversation, sought, stopScroll);
  // Users want to see their own question, wherever they were reading.
  const asked = conversation.turns.findLast(({ outgoing }) => outgoing && !outgoing.request.background)?.key;
  useEffect(() => {
    if (asked) void scrollToBottom("instant");
  }, [asked, scrollToBottom]);
  return (
    <div className="thread-frame" data-empty={isEmpty || undefined}>
      <section id="thread" ref={scrollRef} data-at-end={isAtBottom || undefined} aria-label="Messages" tabIndex={0}>
        <div className="thread-content" ref={contentRef}>
          {children}
        </div>
      </section>
      {!isAtBottom && (
        <button
          type="button"
          className="to-end"
          aria-label="To the newest message"
          onClick={() => void scrollToBottom("instant")}
        >
          <Icon name="down" />
        </button>
      )}
    </div>
  );
}

/** The children of each task that has some. */
function byParent(tasks: readonly Task[]): Map<string, Task[]> {
  const all = new Map<string, Task[]>();
  for (const task of tasks) {
    const parent = task.summary.parent?.task_id;
    if (parent) all.set(parent, [...(all.get(parent) ?? []), task]);
  }
  return all;
}

/** Nobody has asked anything here, and the user may. */
const isNew = ({ tasks }: Conversation) => tasks.length === 0 && may("ask");

/** Nothing was asked here, or all of it runs in the background. */
function Nothing({ conversation, ask }: Pick<Props, "conversation" | "ask">) {
  if (!may("ask")) return <p id="elsewhere">Nothing has been said here yet.</p>;
  if (isNew(conversation)) return <Welcome ask={ask} />;
  return (
    <p id="elsewhere">
      <Icon name="tray" /> What was asked here runs in the background: it is in the tray.
    </p>
  );
}

/**
 * Loads older messages, and keeps the reading position, and the focus for the next ones.  The first turn is the one that
 * stands on the page: the conversation may have got others, which are drawn in the next frame.
 */
function Earlier({ conversation, first }: { conversation: Conversation; first: string | undefined }) {
  const [busy, setBusy] = useState(false);
  const place = useRef<{ thread: Element; fromEnd: number }>(null);
  useLayoutEffect(() => {
    if (!place.current) return;
    const { thread, fromEnd } = place.current;
    thread.scrollTop = thread.scrollHeight - fromEnd;
    place.current = null;
  }, [first]);
  if (!conversation.hasEarlier) return null;

  const bring = async (thread: Element) => {
    if (busy) return;
    place.current = { thread, fromEnd: thread.scrollHeight - thread.scrollTop };
    setBusy(true);
    try {
      await conversation.earlier();
    } catch {
      place.current = null; // the button stays, for another try
    }
    setBusy(false);
  };
  return (
    <button
      id="earlier"
      type="button"
      className="quiet"
      aria-disabled={busy || undefined}
      onClick={({ currentTarget }) => void bring(currentTarget.closest("#thread")!)}
    >
      Earlier messages
    </button>
  );
}
