// cases.mjs -- what holds for every face, with the stock client of each.
//
// A face brings an adapter:
//
//   adapter.name
//   adapter.open(world, token, conversation) -> client
//   client.ask(message) -> answer          asks, and is following the answer
//   client.comeBack() -> answer            follows the conversation's last answer again, after a cut
//   client.stop()                          the protocol's explicit stop; absent where there is none
//   client.close()                         closes its connections
//   adapter.repeats                        coming back is asking again with the same key: another
//                                          owner would begin an answer of its own
//   adapter.learn(conversation, task_id)   what an application would keep of an answer that another
//                                          client has begun; absent where the conversation is enough
//   adapter.endsInOutput                   at the end it has the task's output, of whose steps that is the last
//   answer.text()                          what it has shown so far
//   answer.ended                           {text, end}: end is "completed", "cancelled", "failed" with
//                                          `why`, or "cut" when the connection broke before the end
//
// Each case checks against the journal, read over our own wire.

import assert from "node:assert/strict";
import { test } from "node:test";
import { random } from "./random.mjs";
import { StepModel } from "./step_model.mjs";
import { until, WAIT_MS } from "./until.mjs";
import { SCRIPT, World } from "./world.mjs";

export { until };

export const CUTS = Number(process.env.HOLDFAST_CUTS ?? 200);

let conversations = 0;
const newConversation = () => `c${++conversations}`;
const says = (...steps) => JSON.stringify(steps);

export function holdsFor(adapter, config) {
  let world;
  const scene = (name, run) =>
    test(`${adapter.name}: ${name}`, { timeout: 4 * WAIT_MS }, async () => {
      const { token } = await world.guest();
      const conversation = newConversation();
      const clients = [];
      const open = async (as = token, of = conversation) => {
        const client = await adapter.open(world, as, of);
        clients.push(client);
        return client;
      };
      try {
        await run({ token, conversation, open, world });
      } finally {
        for (const client of clients) await client.close();
        world.network.trickle(0);
        await world.network.restore();
      }
    });

  test.before(async () => {
    world = await new World(config).open();
  });
  test.after(() => world.close());

  scene("a whole answer is the journal's", async ({ open, token, conversation }) => {
    const client = await open();
    const answer = await client.ask(says({ token: "Hel" }, { token: "lo, " }, { token: "wörld\n" }));
    const { text, end } = await answer.ended;
    assert.equal(end, "completed");
    assert.equal(text, "Hello, wörld\n");
    assert.equal((await world.ended(token, conversation)).text, text);
  });

  scene("a second client comes to the running answer and sees the same", async ({ open }) => {
    const gate = world.gate();
    const first = await open();
    const answer = await first.ask(says({ token: "one " }, { wait: gate.path }, { token: "two" }));
    await until(() => answer.text() === "one ", "the first token");
    const second = await open();
    const other = await second.comeBack();
    await until(() => other.text() === "one ", "the replay");
    await gate.open();
    assert.deepEqual(await answer.ended, { text: "one two", end: "completed" });
    assert.deepEqual(await other.ended, { text: "one two", end: "completed" });
  });

  scene("our own wire follows what is asked here", async ({ open, token, conversation }) => {
    const gate = world.gate();
    const client = await open();
    const answer = await client.ask(says({ token: "one " }, { wait: gate.path }, { token: "two" }));
    await until(() => answer.text() === "one ", "the first token");
    const own = world.ended(token, conversation);
    await gate.open();
    assert.deepEqual(await answer.ended, { text: "one two", end: "completed" });
    assert.equal((await own).text, "one two");
  });

  if (!adapter.repeats)
    scene("what our own wire asks is followed here", async ({ open, token, conversation }) => {
      const gate = world.gate();
      const { task_id } = await world.ask(token, conversation, says({ token: "one " }, { wait: gate.path }, { token: "two" }));
      adapter.learn?.(conversation, task_id);
      const answer = await (await open()).comeBack();
      await until(() => answer.text() === "one ", "the first token");
      await gate.open();
      assert.deepEqual(await answer.ended, { text: "one two", end: "completed" });
      assert.equal((await world.ended(token, conversation)).text, "one two");
    });

  test(`${adapter.name}: a gateway that is stopped ends no answer cleanly`, { timeout: 4 * WAIT_MS }, async () => {
    const stopped = await new World({ ...config, drain_s: 0 }).open();
    try {
      const { token } = await stopped.guest();
      const conversation = newConversation();
      const client = await adapter.open(stopped, token, conversation);
      const answer = await client.ask(says({ token: "said" }, { wait: stopped.gate().path }));
      await until(() => answer.text() === "said", "the first token");
      await stopped.gateway.stop("SIGTERM");
      assert.match((await answer.ended).end, /^(cut|failed)$/);
      await client.close();
      await stopped.gateway.start();
      const { end, text } = await stopped.ended(token, conversation);
      assert.deepEqual([end.event, text], ["task.failed", "said"]);
    } finally {
      await stopped.close();
    }
  });

  scene("a close is no cancel", async ({ open, token, conversation }) => {
    const gate = world.gate();
    const client = await open();
    const answer = await client.ask(says({ token: "a" }, { wait: gate.path }, { token: "b" }));
    await until(() => answer.text() === "a", "the first token");
    await client.close();
    await gate.open();
    const { end, text } = await world.ended(token, conversation);
    assert.equal(end.event, "task.completed");
    assert.equal(text, "ab");
  });

  if (adapter.stops)
    scene("a stop ends the task, on disk", async ({ open, token, conversation }) => {
      const gate = world.gate();
      const client = await open();
      const answer = await client.ask(says({ token: "a" }, { wait: gate.path }));
      await until(() => answer.text() === "a", "the first token");
      await client.stop();
      const { end } = await world.ended(token, conversation);
      assert.equal(end.data.status, "cancelled");
    });

  scene("a failure is the protocol's error and keeps the text", async ({ open }) => {
    const client = await open();
    const answer = await client.ask(says({ token: "so far" }, { exit: 3 }));
    const { text, end, why } = await answer.ended;
    assert.equal(end, "failed");
    assert.equal(text, "so far");
    assert.match(why, /exit status 3|agent_error/);
  });

  test(`${adapter.name}: a time-out is the protocol's error`, { timeout: 4 * WAIT_MS }, async () => {
    const agents = [{ name: "script", kind: "exec", command: [SCRIPT], grace_s: 1, timeout_s: 1 }];
    const hurried = await new World({ ...config, agents }).open();
    try {
      const client = await adapter.open(hurried, (await hurried.guest()).token, newConversation());
      const answer = await client.ask(says({ token: "so far" }, { wait: hurried.gate().path }));
      const { end, why } = await answer.ended;
      await client.close();
      assert.equal(end, "failed");
      assert.match(why, /timeout|no end within/);
    } finally {
      await hurried.close();
    }
  });

  scene("a cancel from our own wire ends it as cancelled", async ({ open, token, conversation }) => {
    const gate = world.gate();
    const client = await open();
    const answer = await client.ask(says({ token: "a" }, { wait: gate.path }));
    await until(() => answer.text() === "a", "the first token");
    const url = `http://127.0.0.1:${world.gateway.port}/v1/conversations/${conversation}/tasks`;
    await fetch(url, { method: "DELETE", headers: { authorization: `Bearer ${token}` } });
    assert.equal((await answer.ended).end, "cancelled");
  });

  scene(`cut ${CUTS} times, the answer is whole and was made once`, async (its) => {
    const pick = random();
    const words = Array.from({ length: 4 * CUTS }, (_, n) => `w${n} `);
    const gate = world.gate();
    const client = await its.open();
    const program = words.flatMap((token, n) => (n === words.length - 1 ? [{ wait: gate.path }, { token }] : [{ token }]));
    const all = words.slice(0, -1).join("");
    world.network.trickle(256);
    let answer = await client.ask(says(...program));
    await until(() => answer.text() !== "", "the first text"); // before it there may be no task yet
    for (let n = 0; n < CUTS; n++) {
      const isCut = world.network.cutAfter(1 + pick(1 << pick(15)));
      await until(() => isCut() || answer.text() === all, "a cut, or all of it");
      await world.network.cut();
      assert.equal((await answer.ended).end, "cut");
      await world.network.restore();
      answer = await client.comeBack();
    }
    await gate.open(); // not before: of what has ended some protocols tell nothing
    assert.deepEqual(await answer.ended, { text: words.join(""), end: "completed" });
    const journal = await world.ended(its.token, its.conversation);
    assert.equal(journal.text, words.join(""));
  });

  if (!adapter.repeats)
    scene("another owner's conversation is nothing", async ({ open, token, conversation }) => {
      const gate = world.gate();
      const client = await open();
      const answer = await client.ask(says({ token: "mine" }, { wait: gate.path }));
      await until(() => answer.text() === "mine", "the first token");
      const stranger = await open((await world.guest()).token);
      assert.equal(await stranger.comeBack(), null);
      await gate.open();
      await answer.ended;
      assert.equal((await world.tasks(token, conversation)).length, 1);
    });

  scene("after kill -9 it comes back to what was said and to the truth", async ({ open }) => {
    const gate = world.gate();
    const client = await open();
    const answer = await client.ask(says({ token: "said" }, { wait: gate.path }));
    await until(() => answer.text() === "said", "the first token");
    await world.gateway.stop("SIGKILL");
    assert.equal((await answer.ended).end, "cut");
    await world.gateway.start();
    const again = await client.comeBack();
    if (adapter.replaysEnded) {
      const { text, end, why } = await again.ended;
      assert.deepEqual([text, end], ["said", "failed"]);
      assert.match(why, /orphaned/);
    } else {
      assert.equal(again, null, "nothing runs any more");
    }
  });

  test(`${adapter.name}: a step that a kill cut short is said once`, { timeout: 4 * WAIT_MS }, async () => {
    const model = new StepModel();
    const steps = await new World({ ...config, ...(await model.config()) }).open();
    const client = await adapter.open(steps, (await steps.guest()).token, newConversation());
    try {
      const answer = await client.ask("Count.");
      await until(() => answer.text().endsWith("Tw"), "the second step");
      await model.killIn(steps);
      assert.equal((await answer.ended).end, "cut");
      const again = await client.comeBack();
      await until(() => again.text().endsWith("Two."), "the step done anew");
      model.open();
      assert.deepEqual(await again.ended, { text: adapter.endsInOutput ? "Two." : "One. Two.", end: "completed" });
    } finally {
      await client.close();
      model.close();
      await steps.close();
    }
  });
}
