// @vitest-environment happy-dom

// A conversation as assistant-ui's store; tests/clients/assistant_ui has their own parts on it.

import { createElement as h } from "react";
import { createRoot, type Root } from "react-dom/client";
import { renderToString } from "react-dom/server";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { useHoldfastStore } from "../../src/assistant-ui.js";
import { connect, type Client } from "../../src/index.js";
import { useClient, useConversation, useConversationList } from "../../src/react.js";
import { FakeGateway } from "../../src/testing.js";

type Store = ReturnType<typeof useHoldfastStore>;

let gateway: FakeGateway;
let client: Client;
let root: Root;
let store: Store;

const until = (holds: () => unknown) => vi.waitUntil(holds, { timeout: 25_000, interval: 2 });

function Page() {
  store = useHoldfastStore(client, "c1", { chat: { agent: "sea" } });
  return null;
}

beforeEach(async () => {
  store = undefined!;
  gateway = new FakeGateway({ agents: [{ name: "sea", examples: ["How deep?"] }] });
  client = connect("ws://fake", gateway.options());
  root = createRoot(document.createElement("main"));
  root.render(h(Page));
  await until(() => store?.isLoading === false);
});
afterEach(() => {
  root.unmount();
  client.close();
});

const text = (text: string) => ({ content: [{ type: "text", text }], sourceId: null });

it("has suggestions, then messages with their parts in order, under ids that stay", async () => {
  expect(store.suggestions).toEqual([{ prompt: "How deep?" }]);
  await store.onNew(text("How deep?"));
  await until(() => store.messages.length > 0);
  const { id } = store.messages[0]!;
  expect(store.isRunning).toBe(true);
  const agent = await gateway.task();
  expect(agent.agent).toBe("sea");
  agent.think("hm");
  agent.say("I look.");
  agent.call("look", { at: "sea" }, "11 km");
  agent.emit("custom", { event_type: "mood", payload: 1 });
  await until(() => store.messages[1]?.content.length === 4);
  expect(store.messages[1]).toMatchObject({ role: "assistant", status: { type: "running" } });
  expect(store.messages[1]!.content.map(({ type }) => type)).toEqual(["reasoning", "text", "tool-call", "data-custom"]);
  agent.complete("Deep.");
  await until(() => !store.isRunning && client.conversation("c1").messages.length === 2);
  expect(store.messages.map((one) => one.id)).toEqual([id, agent.id]);
  expect(store.suggestions).toEqual([]);

  await store.onReload(id);
  (await gateway.task()).complete("11 km");
  await until(() => store.messages[1]?.content.some((part) => part.type === "text" && part.text === "11 km"));
  expect(store.messages.map((one) => one.id)[0]).toBe(id);
  expect(store.messages).toHaveLength(2);
});

it("a choice is answered by its option, an expired question is that", async () => {
  await store.onNew(text("which?"));
  const agent = await gateway.task();
  const answer = agent.ask("Which way?", { options: ["up", { id: "down", name: "Down there" }] });
  await until(() => store.messages[1]?.status?.type === "requires-action");
  const part = () => store.messages[1]!.content[0] as { approval: object };
  const options = [
    { id: "up", kind: "_choice", label: "up" },
    { id: "down", kind: "_choice", label: "Down there" },
  ];
  expect(part().approval).toMatchObject({ display: "select", options });
  await store.onRespondToToolApproval({ approvalId: "question-1", approved: true, optionId: "down" });
  expect(await answer).toBe("down");
  await until(() => store.messages[1]?.status?.type === "running");
  expect(part().approval).toMatchObject({ approved: true, optionId: "down" });
  await store.onCancel();
  await until(() => !store.isRunning);
  expect(store.messages[1]!.status).toEqual({ type: "incomplete", reason: "cancelled" });
});

it("what the hooks draw on a server is the state before the first connection", () => {
  const idle = connect("ws://fake", gateway.options());
  function All() {
    const { state } = useClient(idle);
    const { loaded, turns } = useConversation(idle, "c2");
    const { items } = useConversationList(idle);
    return h("p", null, `${state} ${loaded} ${turns.length} ${items.length} ${useHoldfastStore(idle, "c2").isLoading}`);
  }
  expect(renderToString(h(All))).toBe("<p>connecting false 0 0 true</p>");
  expect(gateway.requests.some(({ conversation_id }) => conversation_id === "c2")).toBe(false); // effects are for browsers
  idle.close();
});
