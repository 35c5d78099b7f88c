/** Search.tsx -- the field that searches all conversations, and what it has found. */

import type { FoundConversation, FoundMessage } from "@holdfast/client";
import { marked, search } from "@holdfast/client/search";
import { useEffect, useRef, useState } from "react";
import { gateway } from "../gateway";
import { queryOf, snippetOf } from "../search";
import { sentenceOf, type Wrong } from "../trouble";
import { useWatched } from "../watch";
import { timeAgo } from "../words";
import { Icon } from "./Icon";

const PAUSE_MS = 250; // after the last key
const PAGE = 30; // messages

/** A message that was found. */
export interface Target {
  conversationId: string;
  messageId: string;
  query: string;
}

interface FieldProps {
  text: string;
  change(text: string): void;
}

export function SearchField({ text, change }: FieldProps) {
  return (
    <div className="search" role="search">
      <Icon name="search" />
      <input
        id="search"
        type="search"
        aria-label="Search in all conversations"
        placeholder="Search"
        autoComplete="off"
        value={text}
        onChange={(event) => change(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape" || text === "") return;
          event.stopPropagation();
          change("");
        }}
      />
    </div>
  );
}

interface Found {
  conversations: readonly FoundConversation[];
  messages: readonly FoundMessage[];
  more: boolean;
}

const NONE: Found = { conversations: [], messages: [], more: false };

/** The finds for the query, once its writer pauses; null while nothing is known. */
function useFound(query: string) {
  const [found, setFound] = useState<Found | null>(null);
  const [wrong, setWrong] = useState("");
  const pages = useRef<ReturnType<typeof search>>(null);
  const { state } = useWatched(gateway);
  const isLive = state === "live";
  const load = async (its: ReturnType<typeof search>, before: Found) => {
    try {
      const { value } = await its.next();
      if (its !== pages.current) return; // another query by now
      const { conversations = [], messages = [], more = false } = value ?? {};
      setFound({
        conversations: [...before.conversations, ...conversations],
        messages: [...before.messages, ...messages],
        more,
      });
      setWrong("");
    } catch (error) {
      if (its === pages.current) setWrong((error as Wrong).code === "unsupported" ? "This gateway cannot search." : sentenceOf(error as Wrong));
    }
  };
  useEffect(() => {
    if (query === "" || !isLive) return;
    const timer = setTimeout(() => {
      pages.current = search(gateway, query, { limit: PAGE });
      void load(pages.current, NONE);
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [query, isLive]);
  const further = () => void (pages.current && found && load(pages.current, found));
  return { found, wrong: isLive ? wrong : "There is no connection.", further };
}

const Pieces = ({ all }: { all: ReturnType<typeof marked> }) =>
  all.map(({ text, isMatch }, at) => (isMatch ? <mark key={at}>{text}</mark> : text));

interface Props {
  text: string;
  go(target: Target): void;
  leave(): void;
}

const who = { user: "You", assistant: "Answer", system: "Notice" };

export function SearchResults({ text, go, leave }: Props) {
  const query = queryOf(text);
  const { found, wrong, further } = useFound(query);
  const titleOf = (id: string) => gateway.conversations.items.find(({ conversation_id }) => conversation_id === id)?.title ?? "";
  const isEmpty = found !== null && found.conversations.length + found.messages.length === 0;
  return (
    <nav aria-label="Found">
      <p className="sr" role="status">
        {found && !wrong ? `${found.conversations.length + found.messages.length} found` : ""}
      </p>
      {wrong !== "" && <p className="hint nothing">{wrong}</p>}
      {wrong === "" && isEmpty && !found.more && <p className="hint nothing">Nothing has all of these words.</p>}
      {wrong === "" && found && (
        <ul id="found">
          {found.conversations.map(({ conversation_id, title, matches, updated_at }) => (
            <li key={conversation_id}>
              <a href={`#${conversation_id}`} onClick={leave}>
                <span className="head">
                  <strong>
                    <Pieces all={marked(title ?? "", matches)} />
                  </strong>
                  <time>{timeAgo(updated_at)}</time>
                </span>
              </a>
            </li>
          ))}
          {found.messages.map(({ conversation_id, message_id, role, created_at, text: its, matches }) => (
            <li key={message_id}>
              <a
                href={`#${conversation_id}`}
                onClick={() => {
                  go({ conversationId: conversation_id, messageId: message_id, query });
                  leave();
                }}
              >
                <span className="head">
                  <span>{titleOf(conversation_id) || who[role]}</span>
                  <time>{timeAgo(created_at)}</time>
                </span>
                <span className="snippet" dir="auto">
                  <Pieces all={snippetOf(its, matches)} />
                </span>
              </a>
            </li>
          ))}
        </ul>
      )}
      {wrong === "" && found?.more && (
        <button id="further" type="button" className="quiet" onClick={further}>
          {isEmpty ? "Nothing so far: search further back" : "Search further back"}
        </button>
      )}
    </nav>
  );
}
