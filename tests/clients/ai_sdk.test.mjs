// ai_sdk.test.mjs -- the AI SDK's own Chat, as it comes from the registry, over its HTTP transport.

import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport, WebSocketChatTransport } from "ai";
import WebSocket from "ws";
import { holdsFor, until } from "./support/cases.mjs";

/** The text of the assistant's last message. */
function textOf(chat) {
  const last = chat.messages.findLast(({ role }) => role === "assistant");
  return (last?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("");
}

class Answer {
  constructor(chat, work, finished) {
    this.text = () => textOf(chat);
    this.ended = work.then(() => ({ text: textOf(chat), ...finished() }));
  }
}

/** @param makeTransport (world, headers) => the transport */
export function aiSdk(name, makeTransport, more = {}) {
  return {
    name,
    ...more,
    async open(world, token, conversation) {
      let end = null;
      let chat;
      const transport = makeTransport(world, { authorization: `Bearer ${token}` });
      const make = (messages) =>
        new Chat({
          id: conversation,
          messages,
          transport,
          onError: (error) => (end = { end: "failed", why: error.message }),
          onFinish: ({ isDisconnect, isAbort, isError, finishReason }) => {
            if (isDisconnect) end = { end: "cut" };
            else if (isAbort) end = { end: "cancelled" };
            else if (!isError) end = { end: finishReason === "stop" ? "completed" : "cancelled" };
          },
        });
      chat = make([]);
      const finished = () => {
        if (/terminated|fetch failed|network|other side closed|closed \(code/i.test(end?.why ?? "")) return { end: "cut" };
        return end;
      };
      return {
        async ask(text) {
          end = null;
          return new Answer(chat, chat.sendMessage({ text }), finished);
        },
        async comeBack() {
          end = null;
          let over = false;
          const work = chat.resumeStream().finally(() => (over = true));
          await until(() => over || chat.status === "streaming", "the replay, or that there is none");
          if (over && end === null) return null;
          return new Answer(chat, work, finished);
        },
        stop: () => chat.stop(),
        close: () => transport.close?.() ?? chat.stop(),
      };
    },
  };
}

holdsFor(
  aiSdk("AI SDK over SSE", (world, headers) => new DefaultChatTransport({ api: `${world.base}/v1/ai/chat`, headers })),
);

holdsFor(
  aiSdk(
    "AI SDK over a WebSocket",
    (world, headers) =>
      new WebSocketChatTransport({
        url: `${world.base.replace("http", "ws")}/v1/ai`,
        headers,
        webSocket: WebSocket,
      }),
    { stops: true },
  ),
);
