// @vitest-environment happy-dom

import { act, createElement as h } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Client, Task } from "../../src/index.js";
import { useClient, useConversation, useConversationList, useConversations, useTask } from "../../src/react.js";
import { completed, event, liveScene, summary, token, type Scene } from "../support/script.js";

let its: Scene;
let root: Root;
let element: HTMLElement;

beforeEach(async () => {
    vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
    vi.useFakeTimers();
    its = await liveScene();
    element = document.createElement("main");
    root = createRoot(element);
});
afterEach(() => {
    act(() => root.unmount());
    vi.useRealTimers();
});

const gatewaySays = (...lines: object[]) => act(async () => its.script.socket.say(...lines));
const render = (node: React.ReactNode) => act(async () => root.render(node));

function Chat({ client }: { client: Client }) {
    const { turns, loaded, ask } = useConversation(client, "c1");
    return h(
        "div",
        { onClick: () => ask("next") },
        loaded
            ? turns.map(({ key, input, text }) => h("p", { key }, `${input}: ${text}`))
            : "loading",
    );
}

it("useConversation opens it, shows what is said, and closes it", async () => {
    await render(h(Chat, { client: its.client }));
    expect(element.textContent).toBe("loading");
    const { id } = its.socket.asked("open");
    await gatewaySays({
        type: "conversation",
        id,
        conversation_id: "c1",
        messages: [{ message_id: "m1", role: "user", content: "hi", task_id: "t1", created_at: 1 }],
        tasks: [summary()],
    });
    await gatewaySays(event(1, "task.created", { input: "hi" }), token(2, "Hel"), token(3, "lo"));
    expect(element.textContent).toBe("hi: Hello");
    await act(async () => element.querySelector("div")!.click());
    expect(element.textContent).toBe("hi: Hellonext: ");
    expect(its.socket.asked("chat")["message"]).toBe("next");
    await render(null);
    expect(its.socket.all("close")).toHaveLength(1);
});

function Answer({ task }: { task: Task | null }) {
    const view = useTask(task);
    return h("p", null, view ? `${view.status}: ${view.text}` : "nothing");
}

it("useTask follows it for as long as it is shown", async () => {
    await render(h(Answer, { task: null }));
    expect(element.textContent).toBe("nothing");
    await render(h(Answer, { task: its.client.task("c1", "t1") }));
    expect(its.socket.asked("resume")["after"]).toBe(0);
    await gatewaySays(event(1, "task.created"), event(2, "task.started"), token(3, "Hi"));
    expect(element.textContent).toBe("running: Hi");
    await render(null);
    expect(its.socket.all("unsubscribe")).toHaveLength(1);
    await render(h(Answer, { task: its.client.task("c1", "t1") }));
    await gatewaySays(completed(4));
    expect(element.textContent).toBe("completed: Hi");
});

function State({ client }: { client: Client }) {
    const { state } = useClient(client);
    const conversations = useConversations(client);
    return h("p", null, [state, ...conversations.map(({ title }) => title)].join(" "));
}

it("useClient and useConversations show the connection and the list", async () => {
    await render(h(State, { client: its.client }));
    expect(element.textContent).toBe("live");
    const { id } = its.socket.asked("conversations");
    const conversations = [{ conversation_id: "c1", title: "Sea", updated_at: 1 }];
    await gatewaySays({ type: "conversations", id, conversations });
    expect(element.textContent).toBe("live Sea");
    await act(async () => its.socket.break());
    expect(element.textContent).toBe("waiting Sea");
});

function List({ client }: { client: Client }) {
    const { items, loaded, hasOlder, older } = useConversationList(client);
    const titles = items.map(({ title }) => title).join(" ");
    return h("button", { onClick: () => void older() }, `${loaded} ${hasOlder} ${titles}`);
}

it("useConversationList also brings older ones, and says when there are none", async () => {
    await render(h(List, { client: its.client }));
    expect(element.textContent).toBe("false false ");
    const row = (n: number) => ({ conversation_id: `c${n}`, title: `Sea ${n}`, updated_at: n });
    const reply = (more: boolean, ...conversations: object[]) =>
        gatewaySays({ type: "conversations", id: its.socket.asked("conversations").id, conversations, more });
    await reply(true, row(2));
    expect(element.textContent).toBe("true true Sea 2");
    await act(async () => element.querySelector("button")!.click());
    expect(its.socket.asked("conversations")).toMatchObject({ before: "c2" });
    await reply(false, row(1));
    expect(element.textContent).toBe("true false Sea 2 Sea 1");
});

it("useConversation without an id is one new conversation, however often it is drawn", async () => {
    const seen = new Set<string>();
    function Fresh({ n }: { n: number }) {
        seen.add(useConversation(its.client).conversation.id);
        return h("p", null, n);
    }
    for (const n of [1, 2, 3]) await render(h(Fresh, { n }));
    expect(seen.size).toBe(1);
});
