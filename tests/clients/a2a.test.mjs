// a2a.test.mjs -- the A2A SDK's own client, as it comes from the registry, over JSON-RPC and over REST.

import assert from "node:assert/strict";
import { test } from "node:test";
import { TaskState } from "@a2a-js/sdk";
import { bindings, clientOf, message } from "./support/a2a.mjs";
import { holdsFor, until } from "./support/cases.mjs";
import { outputOf } from "./support/docs.mjs";
import { World } from "./support/world.mjs";

const ENDS = new Map([
  [TaskState.TASK_STATE_COMPLETED, "completed"],
  [TaskState.TASK_STATE_FAILED, "failed"],
  [TaskState.TASK_STATE_CANCELED, "cancelled"],
]);

const textOf = (artifact) => (artifact?.parts ?? []).map(({ content }) => content?.value ?? "").join("");

/** The state that an application keeps of a task: the protocol's own rules of artifacts and nothing else. */
class Shown {
  task = null;
  states = [];

  take({ payload }) {
    const { $case, value } = payload;
    if ($case === "task") {
      this.task = structuredClone(value);
      this.states.push(value.status.state);
    } else if ($case === "statusUpdate") {
      this.task.status = value.status;
      this.states.push(value.status.state);
    } else if ($case === "artifactUpdate") {
      const { artifacts } = this.task;
      const at = artifacts.findIndex(({ artifactId }) => artifactId === value.artifact.artifactId);
      if (at < 0) artifacts.push(structuredClone(value.artifact));
      else if (value.append) artifacts[at].parts.push(...value.artifact.parts);
      else artifacts[at] = structuredClone(value.artifact);
    }
    return this;
  }

  get text() {
    return textOf(this.task?.artifacts[0]);
  }
}

class Answer {
  constructor(events, told = () => {}) {
    this.shown = new Shown();
    this.text = () => this.shown.text;
    this.ended = this.#follow(events, told);
  }

  async #follow(events, told) {
    try {
      for await (const event of events) {
        this.shown.take(event);
        told(this.shown.task.id);
      }
    } catch (error) {
      if (error.name !== "AbortError" && !/terminated|fetch failed|other side closed|aborted/i.test(error.message)) throw error;
      return { text: this.shown.text, end: "cut" };
    }
    const { state, message: last } = this.shown.task.status;
    const end = { text: this.shown.text, end: ENDS.get(state) };
    return end.end === "failed" ? { ...end, why: textOf(last) } : end;
  }
}

async function* goOn(first, rest) {
  yield first;
  yield* rest;
}

function a2a(name, Transport) {
  return {
    name,
    stops: true,
    replaysEnded: true,
    endsInOutput: true,
    async open(world, token, conversation) {
      const client = await clientOf(world, token, Transport);
      const close = new AbortController();
      const options = { signal: close.signal };
      let taskId = null;
      return {
        async ask(text) {
          const events = client.sendMessageStream(message(text, { contextId: conversation }), options);
          return new Answer(events, (id) => (taskId = id));
        },
        async comeBack() {
          const { tasks } = taskId
            ? { tasks: [{ id: taskId }] }
            : await client.listTasks({ contextId: conversation, pageSize: 1, status: 0 });
          if (tasks.length === 0) return null;
          const [{ id }] = tasks;
          const events = client.resubscribeTask({ id }, options);
          try {
            const first = await events.next();
            return new Answer(goOn(first.value, events));
          } catch (error) {
            if (error.reason !== "UNSUPPORTED_OPERATION") throw error; // it has ended
            return new Answer(goOn({ payload: { $case: "task", value: await client.getTask({ id }) } }, []));
          }
        },
        stop: () => client.cancelTask({ id: taskId, metadata: undefined, tenant: "" }),
        close: () => close.abort(),
      };
    },
  };
}

for (const [name, Transport] of bindings) holdsFor(a2a(name, Transport));

// --- what A2A has beyond that

const says = (...steps) => JSON.stringify(steps);

/** Each binding is asked what holds for every face; the rest, in a short run, only the first. */
const skipped = (at) => at > 0 && process.env.HOLDFAST_LOOKS === "few" && "in a long run alone";

for (const [at, [name, Transport]] of bindings.entries()) {
  const scene = (what, run) =>
    test(`${name}: ${what}`, { timeout: 60_000, skip: skipped(at) }, async () => {
      const world = await new World().open();
      try {
        const { token } = await world.guest();
        await run({ world, token, client: await clientOf(world, token, Transport) });
      } finally {
        await world.close();
      }
    });

  scene("a message is answered by its task, when that has ended", async ({ client }) => {
    const task = await client.sendMessage(message(says({ token: "one " }, { token: "two" })));
    assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
    assert.equal(textOf(task.artifacts[0]), "one two");
    assert.equal(task.history.length, 1);
    const again = await client.getTask({ id: task.id });
    assert.deepEqual(again.artifacts, task.artifacts);
    assert.deepEqual(again.status, task.status);
  });

  scene("a message that is to return at once does, and the task goes on", async ({ client, world }) => {
    const gate = world.gate();
    const ask = { ...message(says({ wait: gate.path }, { token: "late" })), configuration: { returnImmediately: true } };
    const task = await client.sendMessage(ask);
    assert.ok([TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING].includes(task.status.state));
    const answer = new Answer(client.resubscribeTask({ id: task.id }));
    await gate.open();
    assert.deepEqual(await answer.ended, { text: "late", end: "completed" });
    await assert.rejects(new Answer(client.resubscribeTask({ id: task.id })).ended, { reason: "UNSUPPORTED_OPERATION" });
    await assert.rejects(client.cancelTask({ id: task.id }), { reason: "TASK_NOT_CANCELABLE" });
    await assert.rejects(client.sendMessage(message("more", { taskId: task.id })), { reason: "UNSUPPORTED_OPERATION" });
  });

  scene("the same message again is the same task", async ({ client }) => {
    const ask = message(says({ token: "once" }));
    const [first, second] = [await client.sendMessage(ask), await client.sendMessage(ask)];
    assert.equal(second.id, first.id);
    assert.equal(textOf(second.artifacts[0]), "once");
  });

  scene("a cancel is answered when the task has ended, and again", async ({ client, world }) => {
    const answer = new Answer(client.sendMessageStream(message(says({ token: "a" }, { wait: world.gate().path }))));
    await until(() => answer.text() === "a", "the first token");
    const { id } = answer.shown.task;
    for (const task of [await client.cancelTask({ id }), await client.cancelTask({ id })]) {
      assert.equal(task.status.state, TaskState.TASK_STATE_CANCELED);
      assert.equal(textOf(task.artifacts[0]), "a");
    }
    assert.equal((await answer.ended).end, "cancelled");
  });

  scene("a question ends the stream, and the next message answers it", async ({ client }) => {
    const asks = [{ token: "so " }, { question: "q", kind: "question", prompt: "who?" }, { hear: "input" }, { token: "done" }];
    const first = new Shown();
    for await (const event of client.sendMessageStream(message(says(...asks)))) first.take(event);
    assert.equal(first.task.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
    assert.equal(first.task.status.message.parts[0].content.value, "who?");
    const { id, contextId } = first.task;
    assert.equal((await client.getTask({ id })).status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
    const { tasks } = await client.listTasks({ contextId: "", status: TaskState.TASK_STATE_INPUT_REQUIRED });
    assert.deepEqual(tasks.map((task) => task.id), [id]);
    const task = await client.sendMessage(message("me", { taskId: id, contextId }));
    assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
    assert.equal(textOf(task.artifacts[0]), "so done");
  });

  scene("an approval takes a plain word, and nothing else", async ({ client }) => {
    const asks = [{ question: "q", kind: "approval", prompt: "sure?", tool: "rm", arguments: {} }, { hear: "input" }, { token: "done" }];
    const asked = await client.sendMessage(message(says(...asks)));
    assert.equal(asked.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
    assert.equal(asked.status.message.parts[1].content.value.tool, "rm");
    await assert.rejects(client.sendMessage(message("which file?", { taskId: asked.id })), { reason: "INVALID_PARAMS" });
    const task = await client.sendMessage(message("Yes", { taskId: asked.id }));
    assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
  });

  scene("tasks are listed newest first, by pages, with and without a conversation", async ({ client, world }) => {
    const made = [];
    for (const contextId of ["a", "a", "b", "a", "b"])
      made.push(await client.sendMessage(message(says({ token: contextId }), { contextId })));
    const ofA = made.filter(({ contextId }) => contextId === "a").map(({ id }) => id).reverse();
    const ofB = made.filter(({ contextId }) => contextId === "b").map(({ id }) => id).reverse();
    const pages = async (query) => {
      const ids = [];
      let pageToken = "";
      do {
        const page = await client.listTasks({ status: 0, pageToken, ...query });
        assert.ok(page.tasks.length <= query.pageSize);
        ids.push(...page.tasks.map(({ id }) => id));
        pageToken = page.nextPageToken;
      } while (pageToken);
      return ids;
    };
    assert.deepEqual(await pages({ contextId: "a", pageSize: 2 }), ofA);
    assert.deepEqual(await pages({ contextId: "", pageSize: 2 }), [...ofB, ...ofA]);
    assert.deepEqual(await pages({ contextId: "", pageSize: 100 }), [...ofB, ...ofA]);
    assert.deepEqual(await pages({ contextId: "a", pageSize: 9, status: TaskState.TASK_STATE_FAILED }), []);
    const { tasks } = await client.listTasks({ contextId: "b", pageSize: 9, status: 0, includeArtifacts: true });
    assert.deepEqual(tasks.map(({ artifacts }) => textOf(artifacts[0])), ["b", "b"]);
    const stranger = await clientOf(world, (await world.guest()).token, Transport);
    assert.deepEqual((await stranger.listTasks({ contextId: "", status: 0 })).tasks, []);
  });

  scene("what is not there, or not taken, is the protocol's own error", async ({ client, world, token }) => {
    const task = await client.sendMessage(message(says({ token: "mine" })));
    const stranger = await clientOf(world, (await world.guest()).token, Transport);
    for (const id of [task.id, `${task.id.slice(0, -1)}0`, "x", "bm9uZQ.01ARZ3NDEKTSV4RRFFQ69G5FAV"])
      await assert.rejects(stranger.getTask({ id }), { reason: "TASK_NOT_FOUND", message: "no such task" });
    const parts = [{ content: { $case: "url", value: "http://x/y.png" }, filename: "", mediaType: "image/png" }];
    await assert.rejects(client.sendMessage(message("", { parts })), { reason: "CONTENT_TYPE_NOT_SUPPORTED" });
    await assert.rejects(client.sendMessage(message("", { parts: [] })), { reason: "INVALID_PARAMS" });
    await assert.rejects(client.listTasks({ contextId: "", status: 0, pageSize: 101 }), { reason: "INVALID_PARAMS" });
    const nobody = await clientOf(world, token, Transport, "nobody").catch((error) => error);
    assert.match(nobody.message, /404/);
  });

  scene("thoughts and tools come with the states, and are no text", async ({ client }) => {
    const call = { event: "tool_call", data: { call_id: "c", name: "weather", arguments: { at: "sea" } } };
    const result = { event: "tool_result", data: { call_id: "c", name: "weather", output: "wet", is_error: false } };
    const shown = new Shown();
    const told = [];
    for await (const event of client.sendMessageStream(message(says({ thinking: "hm" }, { line: call }, { line: result }, { token: "done" })))) {
      shown.take(event);
      const { $case, value } = event.payload;
      if ($case === "statusUpdate" && value.metadata?.event) told.push([value.metadata.event, value.metadata.data]);
    }
    assert.equal(shown.text, "done");
    assert.deepEqual(told.map(([event]) => event), ["thinking", "tool_call", "tool_result"]);
    assert.equal(told[0][1].text, "hm");
    assert.deepEqual([told[1][1].arguments, told[2][1].output], [{ at: "sea" }, "wet"]);
  });

  scene("a final answer that is another takes the artifact's place", async ({ client }) => {
    const shown = new Shown();
    for await (const event of client.sendMessageStream(message(says({ token: "draft" }, { final_answer: "final" })))) shown.take(event);
    assert.equal(shown.text, "final");
    assert.equal(textOf((await client.getTask({ id: shown.task.id })).artifacts[0]), "final");
  });
}

test("A2A: the lines of docs/faces.md say what the agent says", async () => {
  const world = await new World().open();
  try {
    const { token } = await world.guest();
    assert.equal(await outputOf("A2A 1.0", world, token, says({ token: "1 " }, { token: "2 3" })), "1 2 3");
  } finally {
    await world.close();
  }
});

test("A2A: the card of the default agent and of each names both bindings", async () => {
  const world = await new World().open();
  try {
    const { token } = await world.guest();
    const headers = { authorization: `Bearer ${token}` };
    const cardOf = async (path) => await (await fetch(world.base + path, { headers })).json();
    const card = await cardOf("/v1/a2a/script/.well-known/agent-card.json");
    assert.deepEqual(card, await cardOf("/.well-known/agent-card.json"));
    const url = `${world.base}/v1/a2a/script`;
    assert.deepEqual(card.supportedInterfaces, [
      { url, protocolBinding: "JSONRPC", protocolVersion: "1.0" },
      { url, protocolBinding: "HTTP+JSON", protocolVersion: "1.0" },
    ]);
    assert.equal(card.name, "script");
    assert.equal(card.capabilities.streaming, true);
    assert.equal((await fetch(`${world.base}/.well-known/agent-card.json`)).status, 401);
  } finally {
    await world.close();
  }
});
