// engines.mjs -- Firefox and WebKit, by the protocols that they speak themselves: WebDriver BiDi, and
// WebDriver over WebKitGTK's driver.  Both give the same few steps.

import { spawn } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { once } from "node:events";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";
import WebSocket from "ws";

const WAIT_MS = 60_000; // for what must happen at once; a machine may be busy
const LOOK_MS = 50;

const FIREFOX = process.env.FIREFOX ?? "/usr/bin/firefox-esr";
const WEBKIT_DRIVER = process.env.WEBKIT_DRIVER ?? "/usr/bin/WebKitWebDriver";
const LIBRARIES = "/usr/lib/x86_64-linux-gnu";
const XVFB = "/usr/bin/Xvfb";

/** WebKitGTK's own little browser. */
function miniBrowser() {
  const folders = existsSync(LIBRARIES) ? readdirSync(LIBRARIES).filter((name) => name.startsWith("webkit2gtk-")) : [];
  return folders.map((name) => join(LIBRARIES, name, "MiniBrowser")).find(existsSync);
}

/** Keys as WebDriver names them. */
const KEYS = { Enter: "\uE007", Escape: "\uE00C" };

/** One tab.  What differs between the engines: `evaluate`, `act`, `go`, `reload`, `resize`, `show`. */
class Tab {
  async open(url) {
    await this.go(url);
    await this.run(() => {
      window.faults = [];
      addEventListener("error", ({ message }) => window.faults.push(message));
      addEventListener("unhandledrejection", ({ reason }) => window.faults.push(String(reason)));
    });
  }

  /** The result of a function in the page. */
  async run(body, ...values) {
    const text = await this.evaluate(`async (given) => JSON.stringify((await (${body})(...JSON.parse(given))) ?? null)`, JSON.stringify(values));
    return JSON.parse(text);
  }

  /** Waits until the function in the page is true. */
  async until(body, ...values) {
    const end = Date.now() + WAIT_MS;
    while (!(await this.run(body, ...values))) {
      if (Date.now() > end) {
        const shown = await this.run(() => document.body.innerText.slice(0, 800));
        throw new Error(`not within ${WAIT_MS} ms: ${body} ${JSON.stringify(values)}\nthe page: ${shown}`);
      }
      await setTimeout(LOOK_MS);
    }
  }

  see(selector) {
    return this.until((its) => document.querySelector(its)?.checkVisibility() ?? false, selector);
  }

  shows(text, selector = ".turn:last-of-type .answer") {
    const same = (where, what) => [...document.querySelectorAll(where)].at(-1)?.textContent.replaceAll("\n", "") === what;
    return this.until(same, selector, text);
  }

  async click(selector) {
    await this.see(selector);
    const at = await this.run((its) => {
      const element = document.querySelector(its);
      element.scrollIntoView({ block: "nearest" });
      const { x, y, width, height } = element.getBoundingClientRect();
      return { x: Math.round(x + width / 2), y: Math.round(y + height / 2) };
    }, selector);
    await this.act([
      {
        type: "pointer",
        id: "mouse",
        parameters: { pointerType: "mouse" },
        actions: [
          { type: "pointerMove", ...at, duration: 0, origin: "viewport" },
          { type: "pointerDown", button: 0 },
          { type: "pointerUp", button: 0 },
        ],
      },
    ]);
  }

  /** Types, key by key: each sign, or a name of KEYS. */
  async type(...keys) {
    const signs = keys.flatMap((key) => KEYS[key] ?? [...key]);
    const actions = signs.flatMap((value) => [{ type: "keyDown", value }, { type: "keyUp", value }]);
    await this.act([{ type: "key", id: "keys", actions }]);
  }

  async ask(text) {
    await this.click("#message");
    await this.type(text, "Enter");
  }
}

/** A program whose line of output says that it is ready; what it says stays in `said`. */
async function start(program, options, { env = {}, ready, stream = "stderr" }) {
  const its = spawn(program, options, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } });
  const said = [];
  its.on("error", (error) => said.push(String(error)));
  const found = new Promise((resolve, reject) => {
    createInterface({ input: its[stream] }).on("line", (line) => {
      said.push(line);
      const match = ready.exec(line);
      if (match) resolve(match);
    });
    its.once("exit", (code, signal) => reject(new Error(`${program} ended (${signal ?? code}):\n${said.join("\n")}`)));
  });
  its[stream === "stderr" ? "stdout" : "stderr"].resume();
  return { its, match: await found };
}

async function end(its) {
  if (!its || its.exitCode !== null || its.signalCode !== null) return;
  const ended = once(its, "exit");
  its.kill("SIGTERM");
  const hard = globalThis.setTimeout(() => its.kill("SIGKILL"), 10_000);
  await ended;
  clearTimeout(hard);
}

// ---------------------------------------------------------------- Firefox

class FirefoxTab extends Tab {
  constructor(browser, context) {
    super();
    Object.assign(this, { browser, context });
  }

  async evaluate(functionDeclaration, given) {
    const { type, result, exceptionDetails } = await this.browser.ask("script.callFunction", {
      functionDeclaration,
      arguments: [{ type: "string", value: given }],
      awaitPromise: true,
      target: { context: this.context },
    });
    if (type !== "success") throw new Error(exceptionDetails.text);
    return result.value;
  }

  act(actions) {
    return this.browser.ask("input.performActions", { context: this.context, actions });
  }

  go(url) {
    return this.browser.ask("browsingContext.navigate", { context: this.context, url, wait: "complete" });
  }

  async reload() {
    await this.browser.ask("browsingContext.reload", { context: this.context, wait: "complete" });
  }

  resize(width, height) {
    return this.browser.ask("browsingContext.setViewport", { context: this.context, viewport: { width, height } });
  }

  show() {
    return this.browser.ask("browsingContext.activate", { context: this.context });
  }
}

export class Firefox {
  static isHere = () => existsSync(FIREFOX);
  #asked = new Map();
  #n = 0;

  async open() {
    this.folder = await mkdtemp(join(tmpdir(), "holdfast-firefox-"));
    const settings = { "browser.shell.checkDefaultBrowser": false, "app.update.auto": false, "network.captive-portal-service.enabled": false };
    const lines = Object.entries(settings).map(([name, value]) => `user_pref(${JSON.stringify(name)}, ${value});`);
    await writeFile(join(this.folder, "user.js"), lines.join("\n"));
    const options = ["--headless", "--remote-debugging-port", "0", "--profile", this.folder];
    const { its, match } = await start(FIREFOX, options, { ready: /listening on (ws:\S+)/, env: { HOME: this.folder } });
    this.process = its;
    this.socket = new WebSocket(`${match[1]}/session`, { perMessageDeflate: false });
    await once(this.socket, "open");
    this.socket.on("message", (data) => {
      const { id, type, result, error, message } = JSON.parse(data);
      const asked = this.#asked.get(id);
      this.#asked.delete(id);
      if (type === "success") asked?.resolve(result);
      else asked?.reject(new Error(`${error}: ${message}`));
    });
    await this.ask("session.new", { capabilities: {} });
    return this;
  }

  ask(method, params) {
    const id = ++this.#n;
    const answer = new Promise((resolve, reject) => this.#asked.set(id, { resolve, reject }));
    this.socket.send(JSON.stringify({ id, method, params }));
    return answer;
  }

  async tab() {
    const { context } = await this.ask("browsingContext.create", { type: "tab" });
    return new FirefoxTab(this, context);
  }

  async close() {
    this.socket?.terminate();
    await end(this.process);
    if (this.folder) await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

// ---------------------------------------------------------------- WebKit

async function freePort() {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

class WebKitTab extends Tab {
  constructor(browser, handle) {
    super();
    Object.assign(this, { browser, handle });
  }

  /** The driver has one current tab. */
  async order(method, path, body) {
    await this.show();
    return this.browser.ask(method, path, body);
  }

  evaluate(body, given) {
    const script = `const [given, done] = arguments; (${body})(given).then(done, (error) => done(JSON.stringify({ error: String(error) })));`;
    return this.order("POST", "/execute/async", { script, args: [given] });
  }

  act(actions) {
    return this.order("POST", "/actions", { actions });
  }

  go(url) {
    return this.order("POST", "/url", { url });
  }

  async reload() {
    await this.order("POST", "/refresh", {});
  }

  /** So that the page itself has this size, whatever the window has around it. */
  async resize(width, height) {
    for (let tries = 0; tries < 3; tries++) {
      const seen = await this.run(() => [innerWidth, innerHeight]);
      const { width: w, height: h } = await this.order("GET", "/window/rect");
      await this.order("POST", "/window/rect", { width: w + width - seen[0], height: h + height - seen[1] });
    }
  }

  async show() {
    if (this.browser.current === this) return;
    await this.browser.ask("POST", "/window", { handle: this.handle });
    this.browser.current = this;
  }
}

export class WebKit {
  static isHere = () => existsSync(WEBKIT_DRIVER) && existsSync(XVFB) && Boolean(miniBrowser());
  current = null;

  async open() {
    this.folder = await mkdtemp(join(tmpdir(), "holdfast-webkit-"));
    const screen = ["-displayfd", "1", "-screen", "0", "1400x1000x24", "-nolisten", "tcp"];
    const { its, match } = await start(XVFB, screen, { ready: /^(\d+)$/, stream: "stdout" });
    this.screen = its;
    const env = {
      DISPLAY: `:${match[1]}`,
      HOME: this.folder,
      XDG_RUNTIME_DIR: this.folder,
      LIBGL_ALWAYS_SOFTWARE: "1",
      WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: "1", // a root of a container may make no namespaces
      GSETTINGS_BACKEND: "memory",
    };
    const port = await freePort();
    this.driver = spawn(WEBKIT_DRIVER, [`--port=${port}`], { stdio: "ignore", env: { ...process.env, ...env } });
    this.base = `http://127.0.0.1:${port}`;
    for (let end = Date.now() + WAIT_MS; ; await setTimeout(LOOK_MS)) {
      const isUp = await fetch(`${this.base}/status`).then(({ ok }) => ok, () => false);
      if (isUp) break;
      if (Date.now() > end) throw new Error("WebKit's driver does not answer");
    }
    const options = { binary: miniBrowser(), args: ["--automation"] };
    const wanted = { capabilities: { alwaysMatch: { "webkitgtk:browserOptions": options } } };
    const { sessionId } = await this.request("POST", "/session", wanted);
    this.session = `/session/${sessionId}`;
    await this.ask("POST", "/timeouts", { script: WAIT_MS, pageLoad: WAIT_MS });
    this.first = await this.ask("GET", "/window");
    return this;
  }

  async request(method, path, body) {
    const reply = await fetch(this.base + path, { method, ...(body && { body: JSON.stringify(body) }) });
    const { value } = await reply.json();
    if (!reply.ok) throw new Error(`${method} ${path}: ${value.error}: ${value.message}`);
    return value;
  }

  ask(method, path, body) {
    return this.request(method, this.session + path, body);
  }

  async tab() {
    if (this.first) {
      const handle = this.first;
      this.first = null;
      return new WebKitTab(this, handle);
    }
    const { handle } = await this.ask("POST", "/window/new", { type: "window" }); // a tab behind another draws nothing
    return new WebKitTab(this, handle);
  }

  async close() {
    if (this.session) await this.request("DELETE", this.session).catch(() => {});
    await end(this.driver);
    await end(this.screen);
    if (this.folder) await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
