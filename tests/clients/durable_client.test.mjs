// durable_client.test.mjs -- the stock client of Durable Streams reads a task, by long-poll and by SSE.

import assert from "node:assert/strict";
import { test } from "node:test";
import { stream } from "@durable-streams/client";
import { CUTS, holdsFor, until } from "./support/cases.mjs";
import { outputOfShell } from "./support/docs.mjs";
import { random } from "./support/random.mjs";
import { World } from "./support/world.mjs";

const LONG_MS = 120_000;

const scene = (name, run) =>
  test(`Durable Streams: ${name}`, { timeout: LONG_MS }, async () => {
    const world = await new World({ limits: { requests_per_second: 100_000, burst: 100_000 } }).open();
    try {
      await run({ world, token: (await world.guest()).token });
    } finally {
      await world.close();
    }
  });

// ---------------------------------------------------------------- what holds for every face

/** The text of a task's events, without what restarts have withdrawn. */
function textOf(events) {
  let said = [];
  for (const { seq, event, data } of events) {
    if (event === "token") said.push([seq, data.text]);
    if (event === "task.resumed" && data.retracts !== undefined) said = said.filter(([at]) => at <= data.retracts);
  }
  return said.map(([, text]) => text).join("");
}

class Answer {
  #events = [];
  #leave = () => {};

  constructor(asked) {
    this.text = () => textOf(this.#events);
    this.ended = asked.then((response) => this.#follow(response));
  }

  async #follow(response) {
    const isWhole = await new Promise((resolve, reject) => {
      const leave = response.subscribeJson(({ items, streamClosed }) => {
        this.#events.push(...items);
        if (streamClosed) resolve(true);
      });
      this.#leave = () => (leave(), resolve(false));
      response.closed.catch((error) => (isCut(error) ? resolve(false) : reject(error)));
    });
    this.#leave();
    const { event, data } = this.#events.at(-1) ?? {};
    if (!isWhole) return { text: this.text(), end: "cut" };
    if (event === "task.completed") return { text: this.text(), end: "completed" };
    return { text: this.text(), end: data.status, ...(data.status === "failed" ? { why: data.error.message } : {}) };
  }

  close() {
    this.#leave();
  }
}

const isCut = ({ message }) => /terminated|other side closed|fetch failed|aborted/i.test(message);

for (const live of ["long-poll", "sse"])
  holdsFor(
    {
      name: `Durable Streams by ${live}`,
      replaysEnded: true,
      async open(world, token, conversation) {
        const headers = { authorization: `Bearer ${token}` };
        const backoffOptions = { maxRetries: 0 };
        const answers = [];
        const read = async (task_id) => {
          const url = `${world.base}/v1/stream/${conversation}/${task_id}`;
          const response = await stream({ url, offset: "-1", live, json: true, headers, backoffOptions });
          answers.push(new Answer(Promise.resolve(response)));
          return answers.at(-1);
        };
        return {
          ask: async (message) => read((await world.ask(token, conversation, message)).task_id),
          async comeBack() {
            const task = (await world.tasks(token, conversation)).at(-1);
            return task ? await read(task.task_id) : null;
          },
          close: () => answers.forEach((it) => it.close()),
        };
      },
    },
    { limits: { requests_per_second: 100_000, burst: 100_000 } },
  );

// ---------------------------------------------------------------- what this protocol alone has

/** A task that says its steps; its stream's address. */
async function start(world, token, steps) {
  const { task_id } = await world.ask(token, "c-1", JSON.stringify(steps));
  return { url: `${world.base}/v1/stream/c-1/${task_id}`, ids: { conversation_id: "c-1", task_id } };
}

for (const live of ["long-poll", "sse"])
  scene(`${live} gives each event once, in order, to the end of the task`, async ({ world, token }) => {
    const gate = world.gate();
    const { url, ids } = await start(world, token, [{ token: "one " }, { wait: gate.path }, { token: "two" }]);
    const headers = { authorization: `Bearer ${token}` };
    const seen = [];
    const response = await stream({ url, offset: "-1", live, json: true, headers });
    response.subscribeJson(({ items }) => void seen.push(...items));
    await until(() => seen.some(({ data }) => data.text === "one "), "the first piece");
    await gate.open();
    await until(() => seen.some(({ event }) => event === "task.completed"), "the end");
    assert.deepEqual(seen, await world.events(token, ids));
  });

/** Reads to the end of the task. The client gives up on a body that breaks off: the application asks again, from the
 * offset of the last batch that it took, and leaves the old response, which would go on asking. (`closed` says only that
 * nothing more is asked for: a batch may still come, so the end is the batch's `streamClosed`.) */
async function readOn({ url, live, headers, seen, cuts }) {
  for (let offset = "-1", isWhole = false; !isWhole; ) {
    const response = await stream({ url, offset, live, json: true, headers });
    let leave;
    isWhole = await new Promise((resolve, reject) => {
      leave = response.subscribeJson(({ items, offset: next, streamClosed }) => {
        seen.push(...items);
        offset = next;
        if (streamClosed) resolve(true);
      });
      response.closed.catch((error) => (/terminated|other side closed/.test(error.message) ? resolve(false) : reject(error)));
    });
    leave();
    if (!isWhole) cuts.push(offset);
  }
}

for (const live of ["long-poll", "sse"])
  scene(`${live}, cut ${CUTS} times, gives each event once, in order`, async ({ world, token }) => {
    const pick = random();
    const gate = world.gate();
    const words = Array.from({ length: 4 * CUTS }, (_, n) => ({ token: `w${n} ` }));
    const { url, ids } = await start(world, token, [...words, { wait: gate.path }, { token: "end" }]);
    const headers = { authorization: `Bearer ${token}` };
    const seen = [];
    const cuts = [];
    world.network.trickle(256);
    const read = readOn({ url, live, headers, seen, cuts });
    for (let n = 0; n < CUTS; n++) {
      const isCut = world.network.cutAfter(1 + pick(1 << pick(15)));
      await until(() => isCut() || seen.length > words.length, "a cut, or all until the gate");
      await world.network.cut();
      await world.network.restore();
    }
    await gate.open();
    await read;
    assert.deepEqual(seen, await world.events(token, ids));
    assert.ok(cuts.length > 0, "bodies broke off");
  });

scene("the line of docs/faces.md reads a task to its end", async ({ world, token }) => {
  const { ids } = await start(world, token, [{ token: "so" }]);
  const output = await outputOfShell("Durable Streams", world, { TOKEN: token, TASK: ids.task_id });
  assert.match(output, /"event":"token".*"text":"so".*"event":"task.completed"/s);
  assert.match(output, /"streamClosed":true/);
});

scene("a reader catches up, and another owner's stream is one that is not there", async ({ world, token }) => {
  const { url, ids } = await start(world, token, [{ token: "so" }]);
  await world.ended(token, ids.conversation_id);
  const headers = { authorization: `Bearer ${token}` };
  const items = await (await stream({ url, live: false, headers })).json();
  assert.deepEqual(items, await world.events(token, ids));
  const { token: stranger } = await world.guest();
  const answers = [];
  for (const address of [url, `${world.base}/v1/stream/c-2/${ids.task_id}`, `${world.base}/v1/stream/c-1/x`]) {
    const answer = await fetch(address, { headers: { authorization: `Bearer ${stranger}` } });
    answers.push([answer.status, await answer.text()]);
  }
  assert.equal(answers[0][0], 404);
  assert.deepEqual(answers[1], answers[0]);
  assert.deepEqual(answers[2], answers[0]);
});
