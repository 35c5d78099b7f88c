// client_scene.mjs -- a browser test of web/client: pages that have `connect`, a gateway, a network.
//
// The pages come from a server of their own, so that they can be loaded while the network is cut.

import assert from "node:assert/strict";
import { createReadStream } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { browser } from "./browser.mjs";
import { Gateway } from "./gateway.mjs";
import { eventsOf, tasksOf, textOf } from "./journal.mjs";
import { Network } from "./network.mjs";
import { Stage } from "./stage.mjs";

const PYTHON = "/usr/bin/python3";
const WAIT_MS = 60_000; // for what must happen at once; a machine may be busy
const TEST_MS = Number(process.env.HOLDFAST_SOAK_CUTS ?? 0) * 10_000 + 120_000;
const TYPES = { html: "text/html", js: "text/javascript" };
const BLANK = `<!doctype html><meta charset="utf-8"><title>client</title><script type="module">
import * as holdfast from "/dist/index.js";
window.holdfast = holdfast;
</script>`;

/** A worker that can be made to die. */
const MORTAL = `import "/dist/worker.js"; new BroadcastChannel("die").onmessage = () => close();`;

const fixture = (name) => fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url));
const client = fileURLToPath(new URL("../../../web/client/", import.meta.url));

/** Serves web/client, and at / a page that has its exports as `holdfast`. */
const pages = createServer(({ url }, response) => {
  const { pathname } = new URL(url, "http://pages");
  if (pathname === "/") return response.setHeader("content-type", "text/html").end(BLANK);
  if (pathname === "/mortal.js") return response.setHeader("content-type", "text/javascript").end(MORTAL);
  if (!/^\/(dist|example)\/[\w.]+$/.test(pathname)) return response.writeHead(404).end();
  response.setHeader("content-type", TYPES[pathname.split(".").at(-1)]);
  createReadStream(client + pathname)
    .on("error", () => response.writeHead(404).end())
    .pipe(response);
});

/** One tab with a client; `window.client`, `window.conversation` are what it has. */
export class Tab {
  constructor(page, scene) {
    this.page = page;
    this.scene = scene;
  }

  async load(path = "/") {
    await this.page.goto(`${this.scene.origin}${path}`);
    await this.page.waitForFunction(() => window.holdfast);
  }

  /** Connects, by default to the scene's gateway, and opens the conversation c-1. */
  async connect({ url = this.scene.url, ...options } = {}) {
    await this.page.evaluate(
      ([url, options]) => {
        window.states = [];
        window.client = holdfast.connect(url, { ...options, token: window.fetchToken });
        window.client.subscribe(() => {
          if (states.at(-1) !== client.state) states.push(client.state);
        });
        window.conversation = client.conversation("c-1");
        void conversation.open();
      },
      [url, options],
    );
  }

  waitFor(condition, argument) {
    return this.page.waitForFunction(condition, argument);
  }

  waitForState(...states) {
    return this.waitFor((wanted) => wanted.includes(client.state), states);
  }

  ask(text, options = {}) {
    return this.page.evaluate(([t, o]) => void conversation.ask(t, o), [text, options]);
  }

  /** Waits until the last task says exactly this. */
  async waitForText(text) {
    try {
      await this.waitFor((wanted) => conversation.tasks.at(-1)?.text === wanted, text);
    } catch (error) {
      assert.equal(await this.page.evaluate(() => conversation.tasks.at(-1)?.text), text);
      throw error;
    }
  }

  waitForStatus(status) {
    return this.waitFor((wanted) => conversation.tasks.at(-1)?.status === wanted, status);
  }

  token() {
    return this.page.evaluate(
      () =>
        new Promise((resolve) => {
          const opening = indexedDB.open("holdfast");
          opening.onsuccess = () => {
            const kept = opening.result.transaction("kept").objectStore("kept");
            const all = kept.getAll();
            all.onsuccess = () => resolve(all.result.find((each) => typeof each === "string"));
          };
        }),
    );
  }

  /** Each task says here what the journal says, to the letter. */
  async assertIsJournal() {
    const token = this.scene.journalToken ?? (await this.token());
    const said = await this.page.evaluate(() =>
      conversation.tasks.map(({ id, text, transcript: { last } }) => ({ id, text, last })),
    );
    assert.ok(said.length > 0);
    for (const { id, text, last } of said) {
      const ids = { task_id: id, conversation_id: "c-1" };
      const events = await eventsOf(this.scene.gateway.port, token, ids);
      assert.equal(text, textOf(events));
      assert.equal(last, events.at(-1).seq);
    }
  }

  /** The gateway's view of the conversation. */
  async tasks() {
    return tasksOf(this.scene.gateway.port, await this.token(), "c-1");
  }

  /** Bytes of the heap, once what is garbage has gone, and texts are whole: as for who shows them. */
  heap() {
    return this.page.evaluate(() => {
      for (const { text } of conversation.tasks) text.indexOf("\n");
      gc();
      return performance.memory.usedJSHeapSize;
    });
  }
}

class Scene {
  stage = new Stage();
  faults = [];
  #contexts = [];

  constructor(config) {
    this.config = config;
    this.network = new Network(() => this.gateway.port);
  }

  get url() {
    return `ws://127.0.0.1:${this.network.port}/v1/ws`;
  }

  get origin() {
    return `http://127.0.0.1:${pages.address().port}`;
  }

  async open() {
    await this.stage.open();
    const puppet = [PYTHON, fixture("puppet_agent.py"), String(this.stage.port)];
    this.gateway = new Gateway({
      drain_s: 1,
      origins: [this.origin],
      agents: [
        { name: "puppet", kind: "exec", command: puppet, default: true },
        { name: "slow", kind: "exec", command: [PYTHON, fixture("slow_agent.py")] },
      ],
      ...this.config,
    });
    await this.gateway.start();
    await this.network.restore();
  }

  async profile() {
    const context = await (await browser()).newContext();
    context.setDefaultTimeout(WAIT_MS);
    this.#contexts.push(context);
    return context;
  }

  /** A tab that is connected, in a profile of its own unless one is given. */
  async tab({ profile, prepare, path, ...options } = {}) {
    const page = await (profile ?? (await this.profile())).newPage();
    page.on("pageerror", (error) => this.faults.push(String(error)));
    await prepare?.(page);
    const tab = new Tab(page, this);
    await tab.load(path);
    if (!path) await tab.connect(options);
    return tab;
  }

  /** A tab that has asked something, and the agent that has begun to answer. */
  async asked(options) {
    const tab = await this.tab(options);
    await tab.ask("How deep is the sea?");
    const puppet = await this.stage.puppet();
    puppet.say("Deep", " – ", "very");
    await tab.waitForText("Deep – very");
    return { tab, puppet };
  }

  /** Connections that the gateway has now. */
  async connections() {
    const reply = await fetch(`http://127.0.0.1:${this.gateway.port}/metrics`);
    return Number(/^holdfast_connections (\d+)/m.exec(await reply.text())[1]);
  }

  async close() {
    for (const context of this.#contexts) await context.close();
    await this.network.close();
    await this.gateway?.remove();
    this.stage.close();
  }
}

test.before(async () => {
  pages.listen(0, "127.0.0.1");
  await once(pages, "listening");
});
test.after(() => {
  pages.closeAllConnections();
  pages.close();
});

/** A test with a gateway, a network and a stage of its own. */
export function scene(name, body, config = {}, options = {}) {
  test(name, { timeout: TEST_MS, ...options }, async () => {
    const its = new Scene(config);
    try {
      await its.open();
      await body(its);
      assert.deepEqual(its.faults, []);
    } catch (error) {
      if (its.gateway?.log) console.error(its.gateway.log.slice(-4000));
      throw error;
    } finally {
      await its.close();
    }
  });
}

/** A scene of which a short run has others of its kind. */
export function detail(name, body, config) {
  scene(name, body, config, { skip: process.env.HOLDFAST_LOOKS === "few" && "in a long run alone" });
}
