// Vue, Svelte and Solid: each shows changes, opens what it shows, and releases it.

import { get } from "svelte/store";
import { createEffect, createRoot } from "solid-js";
import { effectScope, watchEffect } from "vue";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import * as solid from "../../src/solid.js";
import * as svelte from "../../src/svelte.js";
import * as vue from "../../src/vue.js";
import { event, liveScene, settle, summary, token, type Scene } from "../support/script.js";

let its: Scene;

beforeEach(async () => {
  vi.useFakeTimers();
  its = await liveScene();
});
afterEach(() => vi.useRealTimers());

/**
 * Shows conversation c1, the task t1 and the list with one framework; returns a function that ends
 * it.
 */
type Show = (said: string[]) => () => void;

const textOf = ({ turns }: { turns: readonly { text: string }[] }) => turns.map(({ text }) => text).join();

const shows: Record<string, Show> = {
  Vue(said) {
    const scope = effectScope();
    scope.run(() => {
      const client = vue.useClient(its.client);
      const conversation = vue.useConversation(its.client, "c1");
      const task = vue.useTask(its.client.task("c1", "t1"));
      const list = vue.useConversationList(its.client);
      watchEffect(
        () => {
          const { state } = client.value;
          said.push(`${state} ${textOf(conversation.value)} ${task.value.text} ${list.value.items.length}`);
        },
        { flush: "sync" },
      );
    });
    return () => scope.stop();
  },
  Svelte(said) {
    const client = svelte.connection(its.client);
    const conversation = svelte.conversation(its.client, "c1");
    const task = svelte.task(its.client.task("c1", "t1"));
    const list = svelte.conversations(its.client);
    const shown: any[] = [];
    const show = () => {
      const [client, conversation, task, list] = shown;
      if (list) said.push(`${client.state} ${textOf(conversation)} ${task.text} ${list.items.length}`);
    };
    const ends = [client, conversation, task, list].map((each, at) =>
      (each as svelte.Readable<unknown>).subscribe((value) => {
        shown[at] = value;
        show();
      }),
    );
    return () => ends.forEach((end) => end());
  },
  Solid: (said) =>
    createRoot((dispose) => {
      const client = solid.createClient(its.client);
      const conversation = solid.createConversation(its.client, "c1");
      const task = solid.createTask(its.client.task("c1", "t1"));
      const list = solid.createConversationList(its.client);
      createEffect(() => {
        said.push(`${client().state} ${textOf(conversation())} ${task().text} ${list().items.length}`);
      });
      return dispose;
    }),
};

it.each(Object.keys(shows))("%s", async (name) => {
  const said: string[] = [];
  const end = shows[name]!(said);
  expect(said.at(-1)).toBe("live   0");
  const messages = [{ message_id: "m1", role: "user", content: "?", task_id: "t1", created_at: 1 }];
  its.socket.answer("open", { type: "conversation", conversation_id: "c1", messages, tasks: [summary()] });
  its.socket.say(event(1, "task.created", { input: "hi" }), event(2, "task.started"), token(3, "Hel"), token(4, "lo"));
  its.socket.answer("conversations", { type: "conversations", conversations: [{ conversation_id: "c1", title: "Sea", updated_at: 1 }] });
  await settle();
  expect(said.at(-1)).toBe("live Hello Hello 1");
  const told = said.length;
  end();
  expect(its.socket.all("close")).toHaveLength(1);
  expect(its.socket.all("unsubscribe")).toHaveLength(1);
  its.socket.break();
  await settle();
  expect(said).toHaveLength(told);
});

it("a store of Svelte is opened again by who comes after the last one has left", async () => {
  const store = svelte.task(its.client.task("c1", "t1"));
  const ends = [store.subscribe(() => {}), store.subscribe(() => {})];
  ends[0]!();
  expect(its.socket.all("unsubscribe")).toHaveLength(0);
  ends[1]!();
  expect(its.socket.all("unsubscribe")).toHaveLength(1);
  expect(get(store)).toBe(its.client.task("c1", "t1")); // by Svelte's own hand
  expect(its.socket.all("resume")).toHaveLength(2);
});
