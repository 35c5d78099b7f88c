// scene.mjs -- everything that one browser test needs: gateway, agents, network, pages.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { browser } from "./browser.mjs";
import { Gateway } from "./gateway.mjs";
import { answerTo, eventsOf, textOf } from "./journal.mjs";
import { words, wordsOf } from "./meaning.mjs";
import { Network } from "./network.mjs";
import { Stage } from "./stage.mjs";

const PYTHON = "/usr/bin/python3";
const WAIT_MS = 100_000; // for what must happen at once; a machine may be busy
const TEST_MS = 300_000;
const NETWORK_TROUBLE = /^WebSocket connection to .* failed|net::ERR_/;

const fixture = (name) => fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url));

/** One tab with the chat page. */
export class Chat {
  constructor(page, scene) {
    this.page = page;
    this.scene = scene;
  }

  async ask(text) {
    await this.page.fill("#message", text);
    await this.page.press("#message", "Enter");
  }

  async waitForState(...states) {
    const selector = states.map((state) => `#connection[data-state=${state}]`).join(", ");
    await this.page.waitForSelector(selector, { state: "attached" });
  }

  waitForStatus(status) {
    return this.page.waitForSelector(`[data-task-id][data-status=${status}]`, {
      state: "attached",
    });
  }

  /** Waits until an element says exactly this; between blocks there may be a newline or none. */
  async waitForText(text, selector = ".turn .answer") {
    const same = ([where, what]) =>
      document.querySelector(where)?.textContent.replaceAll("\n", "") === what.replaceAll("\n", "");
    try {
      await this.page.waitForFunction(same, [selector, text]);
    } catch (error) {
      assert.equal(await this.textOf(selector), text);
      throw error;
    }
  }

  textOf(selector) {
    return this.page.evaluate((where) => document.querySelector(where)?.textContent, selector);
  }

  /** The texts of all such elements that can be seen. */
  async allTexts(selector) {
    return this.page.locator(selector).filter({ visible: true }).allTextContents();
  }

  conversationId() {
    return decodeURIComponent(new URL(this.page.url()).hash.slice(1));
  }

  /** The tasks shown as turns. */
  taskIds() {
    const ids = (turns) => turns.map((turn) => turn.dataset.taskId);
    return this.page.locator(".turn[data-task-id]").evaluateAll(ids);
  }

  /** This browser's identity: the token that the page keeps, and the owner that it names. */
  async guest() {
    const token = await this.page.evaluate(readGuest);
    const { sub: owner } = JSON.parse(Buffer.from(token.split(".")[1], "base64url"));
    return { owner, token };
  }

  /** The hash of a link to this conversation, with these rights. */
  async linkWith(...rights) {
    const { token } = await this.guest();
    const request = { type: "share", conversation_id: this.conversationId(), rights };
    const share = await answerTo(this.scene.gateway.port, token, request);
    return `#share=${share.token}`;
  }

  /** The text that "copy" of this task's answer copies; nothing without an answer. */
  copyOf(taskId) {
    return this.page.evaluate(async (id) => {
      window.copied = "";
      document.querySelector(`.turn[data-task-id="${id}"] > .told > .actions > .copy`)?.click();
      await Promise.resolve();
      return window.copied;
    }, taskId);
  }

  /** The words of a task's answer, as they stand on the page, whatever stands between them. */
  async shownOf(taskId) {
    const shown = await this.page
      .locator(`.turn[data-task-id="${taskId}"] > .told > .stretch > .answer`)
      .evaluateAll((answers) =>
        answers.map((answer) => {
          const copy = answer.cloneNode(true);
          for (const bar of copy.querySelectorAll(".code-bar")) bar.remove();
          const ends = copy.querySelectorAll("p, li, h1, h2, h3, h4, h5, h6, pre, td, th");
          for (const end of ends) end.append(" ");
          return copy.textContent;
        }),
      );
    return words(shown.join(" "));
  }

  /**
   * The page says of each task what the journal says, and says it once: to the letter where it is
   * copied, and word by word, as the reference reader of Markdown reads it, where it is shown.
   */
  async assertIsJournal() {
    const { token } = await this.guest();
    for (const task_id of await this.taskIds()) {
      const ids = { task_id, conversation_id: this.conversationId() };
      const text = textOf(await eventsOf(this.scene.gateway.port, token, ids));
      assert.equal(await this.shownOf(task_id), wordsOf(text));
      assert.equal(await this.copyOf(task_id), text);
    }
  }
}

/** In the page. */
function readGuest() {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open("holdfast");
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const kept = opening.result.transaction("kept").objectStore("kept");
      const keys = kept.getAllKeys();
      keys.onsuccess = () => {
        const token = kept.get(keys.result.find((key) => key.endsWith(" guest")));
        token.onsuccess = () => resolve(token.result);
      };
    };
  });
}

/** In the page, before its own scripts: what is copied can be read. */
function catchCopies() {
  if (!navigator.clipboard) return; // about:blank
  navigator.clipboard.writeText = async (text) => {
    window.copied = text;
  };
}

class Scene {
  stage = new Stage();
  /** Errors in any page, except those that a cut network brings. */
  faults = [];
  #contexts = [];

  constructor() {
    this.network = new Network(() => this.gateway.port);
  }

  async open() {
    await this.stage.open();
    const puppet = [PYTHON, fixture("puppet_agent.py"), String(this.stage.port)];
    this.gateway = new Gateway({
      drain_s: 1,
      agents: [
        { name: "puppet", kind: "exec", command: puppet, default: true },
        { name: "slow", kind: "exec", command: [PYTHON, fixture("slow_agent.py")] },
      ],
    });
    await this.gateway.start();
    await this.network.restore();
  }

  /** Starts the gateway again with more in its configuration. */
  async reconfigure(more) {
    await this.gateway.stop();
    Object.assign(this.gateway.config, more);
    await this.gateway.start();
  }

  /** Another browser profile: nothing kept from any other. */
  async profile(options) {
    const context = await (await browser()).newContext(options);
    context.setDefaultTimeout(WAIT_MS);
    this.#contexts.push(context);
    return context;
  }

  /** A tab with the page, in a profile of its own unless one is given. */
  async chat({ profile, file = "", hash = "", prepare } = {}) {
    const page = await (profile ?? (await this.profile())).newPage();
    page.on("pageerror", (error) => this.faults.push(String(error)));
    page.on("console", (message) => {
      if (message.type() !== "error" || NETWORK_TROUBLE.test(message.text())) return;
      this.faults.push(`${message.text()} (${message.location().url})`);
    });
    await page.addInitScript(catchCopies);
    await prepare?.(page);
    await page.goto(`http://127.0.0.1:${this.network.port}/${file}${hash}`);
    return new Chat(page, this);
  }

  /** A tab that has asked something, and the agent that has begun to answer. */
  async asked({ text = "How deep is the sea?", said = ["Deep", " – ", "very"], shown, ...options } = {}) {
    const chat = await this.chat(options);
    await chat.ask(text);
    const puppet = await this.stage.puppet();
    assert.equal(puppet.run.input, text);
    puppet.say(...said);
    if (shown ?? said.length > 0) await chat.waitForText(shown ?? said.join(""));
    return { chat, puppet };
  }

  async close() {
    for (const context of this.#contexts) await context.close();
    await this.network.close();
    await this.gateway?.remove();
    this.stage.close();
  }
}

/** A test with a gateway, a network and a stage of its own. */
export function scene(name, ...rest) {
  const body = rest.pop();
  test(name, { timeout: TEST_MS, ...rest[0] }, async () => {
    const its = new Scene();
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
export function detail(name, body) {
  scene(name, { skip: process.env.HOLDFAST_LOOKS === "few" && "in a long run alone" }, body);
}
