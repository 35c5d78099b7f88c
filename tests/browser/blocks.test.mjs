// blocks.test.mjs -- the blocks for Solid, useChat and assistant-ui in web/client/README.md, as they stand there, in
// Chromium against a gateway: an answer grows, is cut, reloaded, and ends whole.  (Vue's and Svelte's are drawn in
// web.readme, Next.js' in browser.next.)

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { SCRIPT } from "../clients/support/world.mjs";
import { bundle, site } from "./support/site.mjs";

const home = (name) => fileURLToPath(new URL(`../clients/${name}/`, import.meta.url));
const client = fileURLToPath(new URL("../../web/client/", import.meta.url));
const readme = await readFile(join(client, "README.md"), "utf8");

/** The one block of code with this in it. */
function blockWith(words) {
  const found = [...readme.matchAll(/^```jsx\n([^]*?)^```$/gm)].map(([, code]) => code).filter((code) => code.includes(words));
  assert.equal(found.length, 1, `${found.length} blocks with ${words}`);
  return found[0];
}

/** Splits the lines of a block into those that match, and the others. */
function split(code, pattern) {
  const lines = code.split("\n");
  return [lines.filter((line) => pattern.test(line)).join("\n"), lines.filter((line) => !pattern.test(line)).join("\n")];
}

const react = `
import { createElement } from "react";
import { createRoot } from "react-dom/client";
const draw = (Page, props) => createRoot(document.getElementById("root")).render(createElement(Page, props));
`;

/** Each block with what its reader has around it; `folder` has the libraries. */
const CASES = {
  Solid: {
    folder: home("solid"),
    page() {
      const [imports, body] = split(blockWith("@holdfast/client/solid"), /^import /);
      return `${imports}
import { render } from "solid-js/web";
function Component(props) {
${body}}
window.ask = (text) => void client.conversation(id).ask(text);
render(() => <Component id={id} />, document.getElementById("root"));`;
    },
    compile(code, { folder }) {
      const of = createRequire(join(folder, "package.json"));
      return of("@babel/core").transformSync(code, { presets: [of.resolve("babel-preset-solid")], babelrc: false, configFile: false }).code;
    },
    shown: (question, text) => `${question} ${text}`,
  },
  useChat: {
    folder: home(""),
    page() {
      const [use, rest] = split(blockWith("HoldfastChatTransport"), /^const chat = useChat/);
      return `${react}${rest}
function Page() {
  ${use}
  window.ask = (text) => void chat.sendMessage({ text });
  return chat.messages.flatMap(({ role, parts }) => parts.map((part) => (role === "assistant" && part.text) || ""));
}
draw(Page);`;
    },
    shown: (question, text) => text,
  },
  "assistant-ui": {
    folder: home("assistant_ui"),
    page() {
      const block = blockWith("useHoldfastStore");
      assert.ok(block.includes(">…</"), "the block leaves the messages to its reader");
      return `${react}
import { MessagePrimitive, ThreadPrimitive } from "@assistant-ui/react";
const Question = () => null;
const Answer = () => <MessagePrimitive.Parts components={{ Text: ({ text }) => text }} />;
const Messages = () => <ThreadPrimitive.Messages components={{ UserMessage: Question, AssistantMessage: Answer }} />;
${block.replace("…", "<Messages />").replace("return <", "window.ask = (text) => runtime.thread.append(text); return <")}
draw(Chat, { client, id });`;
    },
    shown: (question, text) => text,
  },
};

/** The client of this tree, and one copy of the framework: that of the page. */
function resolver(folder) {
  const of = createRequire(join(folder, "package.json"));
  return {
    name: "packages",
    setup(to) {
      to.onResolve({ filter: /^@holdfast\/client/ }, ({ path }) => ({ path: join(client, "dist", `${path.slice(17) || "index"}.js`) }));
      to.onResolve({ filter: /^(react|react-dom|solid-js|@assistant-ui|@ai-sdk|ai)(\/|$)/ }, ({ path, pluginData }) =>
        pluginData?.own ? undefined : to.resolve(path, { resolveDir: folder, kind: "import-statement", pluginData: { own: of } }),
      );
    },
  };
}

async function script(its, base, token) {
  const code = `import { connect } from "@holdfast/client";
const client = connect(${JSON.stringify(`${base.replace("http", "ws")}/v1/ws`)}, { token: ${JSON.stringify(token)}, share: false });
const id = "chat-1";
${its.page()}`;
  const page = its.compile ? its.compile(code, its) : code;
  return bundle(page, [resolver(its.folder)], { loader: "jsx", jsx: "automatic" });
}

for (const [name, its] of Object.entries(CASES)) {
  const skip = existsSync(join(its.folder, "node_modules")) ? false : "its libraries are not installed: ./dev test-all does that";
  test(`the README's block for ${name}`, { skip, timeout: 180_000 }, async (t) => {
    const assistant = { name: "assistant", kind: "exec", command: [SCRIPT], grace_s: 1 };
    const { page, world, token } = await site(t, (base, token) => script(its, base, token), { agents: [assistant] });
    const faults = [];
    page.on("pageerror", (error) => faults.push(String(error)));
    const shows = (question, text) =>
      page.waitForFunction((wanted) => document.querySelector("#root").textContent === wanted, its.shown(question, text));

    const gate = world.gate();
    const question = JSON.stringify([{ token: "one " }, { wait: gate.path }, { token: "two" }]);
    await page.waitForFunction(() => window.ask);
    await page.evaluate((text) => window.ask(text), question);
    await shows(question, "one ");
    await world.network.cut();
    await world.network.restore();
    await page.evaluate(() => dispatchEvent(new Event("online")));
    await page.reload();
    await shows(question, "one ");
    await world.network.cut();
    await gate.open();
    await world.network.restore();
    await page.evaluate(() => dispatchEvent(new Event("online")));
    await shows(question, "one two");
    assert.equal((await world.ended(token, "chat-1")).text, "one two");
    assert.deepEqual(faults, []);
  });
}
