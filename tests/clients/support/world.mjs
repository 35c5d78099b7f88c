// world.mjs -- a gateway with the scripted agent, a network that can be cut, and its journal.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Gateway } from "../../browser/support/gateway.mjs";
import { Network } from "../../browser/support/network.mjs";
import { converse, eventsOf, tasksOf, textOf } from "../../browser/support/journal.mjs";

const program =
  process.env.HOLDFAST ?? fileURLToPath(new URL("../../../build/holdfast", import.meta.url));
export const SCRIPT = join(dirname(program), "tests", "script_agent");

/** Clients may raise what nobody waits for when a connection breaks. */
process.on("unhandledRejection", (reason) => {
  if (!/terminated|aborted|closed|fetch failed/i.test(String(reason?.message ?? reason))) throw reason;
});

export class World {
  #folder = null;
  #gates = 0;

  constructor(config = {}) {
    const agent = { name: "script", kind: "exec", command: [SCRIPT], grace_s: 1 };
    this.gateway = new Gateway({ agents: [agent], ...config });
    this.network = new Network(() => this.gateway.port);
  }

  async open() {
    this.#folder = await mkdtemp(join(tmpdir(), "holdfast-clients-"));
    await this.gateway.start();
    await this.network.restore();
    return this;
  }

  async close() {
    await this.network.close();
    await this.gateway.remove();
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** The address for clients: through the network that can be cut. */
  get base() {
    return `http://127.0.0.1:${this.network.port}`;
  }

  async guest() {
    const answer = await fetch(`http://127.0.0.1:${this.gateway.port}/v1/guest`, { method: "POST" });
    return await answer.json();
  }

  /** A file that the agent waits for (`{"wait": gate.path}`) until it is opened. */
  gate() {
    const path = join(this.#folder, `gate-${++this.#gates}`);
    return { path, open: () => writeFile(path, "") };
  }

  /** Our own wire asks the first agent; the new task. */
  async ask(token, conversation, message) {
    const answer = await fetch(`http://127.0.0.1:${this.gateway.port}/v1/conversations/${conversation}/tasks`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ message }),
    });
    return (await answer.json()).task;
  }

  tasks(token, conversation) {
    return tasksOf(this.gateway.port, token, conversation);
  }

  /** The conversation's only task, when it has ended: with its events and its text. */
  async ended(token, conversation) {
    const [task, ...more] = await this.tasks(token, conversation);
    if (more.length) throw new Error(`${more.length + 1} tasks where one was started`);
    const ids = { conversation_id: conversation, task_id: task.task_id };
    const lines = await converse(
      this.gateway.port,
      token,
      { type: "resume", ...ids, after: 0 },
      ({ event }) => event === "task.completed" || event === "task.failed",
    );
    const events = lines.filter(({ type }) => type === "event");
    return { ...ids, events, text: textOf(events), end: events.at(-1) };
  }

  events(token, ids) {
    return eventsOf(this.gateway.port, token, ids);
  }
}
