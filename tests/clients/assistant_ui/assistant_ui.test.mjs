// assistant_ui.test.mjs -- assistant-ui, as it comes from the registry, on the client's store and a fake gateway.

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { until } from "../support/until.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const client = fileURLToPath(new URL("../../../web/client/", import.meta.url));
const of = createRequire(join(client, "package.json"));

let folder;
let show;
let gateway;
let its;
let page;

before(async () => {
  const { Window } = await import(pathToFileURL(of.resolve("happy-dom")).href);
  const window = new Window();
  const { document, HTMLElement, Element, Node, MutationObserver, getComputedStyle } = window;
  Object.assign(globalThis, { window, document, HTMLElement, Element, Node, MutationObserver, getComputedStyle });
  Object.defineProperty(globalThis, "navigator", { value: window.navigator, configurable: true });
  Object.assign(globalThis, { ResizeObserver: window.ResizeObserver, requestAnimationFrame: window.requestAnimationFrame.bind(window) });
  folder = await mkdtemp(join(here, "node_modules", ".scene-"));
  const { build } = of("esbuild");
  await build({
    entryPoints: [join(here, "scene.jsx")],
    outfile: join(folder, "scene.mjs"),
    bundle: true,
    format: "esm",
    platform: "node",
    packages: "external",
    jsx: "automatic",
    logLevel: "error",
    plugins: [
      {
        name: "client", // its hooks must have the React of the page
        setup: (build) =>
          build.onResolve({ filter: /^@holdfast\/client/ }, ({ path }) => ({ path: join(client, "dist", `${path.slice(17) || "index"}.js`) })),
      },
    ],
  });
  ({ show } = await import(pathToFileURL(join(folder, "scene.mjs")).href));
});
after(() => rm(folder, { recursive: true, force: true }));

async function open() {
  const { connect } = await import(pathToFileURL(join(client, "dist/index.js")).href);
  const { FakeGateway } = await import(pathToFileURL(join(client, "dist/testing.js")).href);
  gateway = new FakeGateway();
  its = connect("ws://fake", gateway.options());
  page = await show(its, "c-1");
  return page;
}

const close = async () => {
  await page.end();
  its.close();
};

const thread = () => page.runtime.thread;
const messages = () => thread().getState().messages;
const say = (text) => thread().append({ role: "user", content: [{ type: "text", text }] });

test("an answer grows, with its parts in order, over a cut; and ends", async () => {
  await open();
  say("How deep?");
  const agent = await gateway.task();
  agent.think("hm");
  agent.say("I look. ");
  agent.call("look", { at: "sea" }, "11 km");
  agent.say("Dee");
  await until(() => page.text().join().endsWith("Dee"), "the first text");
  gateway.drop();
  agent.say("p.");
  await until(() => page.text().join().endsWith("Deep."), "the rest");
  assert.deepEqual(messages().at(-1).content.map(({ type }) => type), ["reasoning", "text", "tool-call", "text"]);
  assert.equal(thread().getState().isRunning, true);
  agent.complete();
  await until(() => !thread().getState().isRunning, "the end");
  assert.deepEqual(page.text(), ["How deep?", "I look. look: 11 kmDeep."]);
  assert.deepEqual(messages().at(-1).status, { type: "complete", reason: "stop" });
  assert.equal(messages()[0].id.startsWith("asked "), true);
  await close();
});

test("cancel stops it; reload and edit ask again", async () => {
  await open();
  say("one");
  (await gateway.task()).say("so far");
  await until(() => page.text()[1] === "so far", "the first text");
  const { id } = messages()[0];
  await thread().cancelRun();
  await until(() => messages().at(-1)?.status?.reason === "cancelled", "the stop");

  await thread().getMessageById(messages().at(-1).id).reload();
  const again = await gateway.task();
  again.say("whole");
  again.complete();
  await until(() => page.text()[1] === "whole", "another answer");
  assert.equal(messages()[0].id, id);
  assert.equal(messages().length, 2);

  const { composer } = thread().getMessageById(id);
  composer.beginEdit();
  composer.setText("uno");
  composer.send();
  const edited = await gateway.task();
  assert.equal(edited.input, "uno");
  edited.complete("eins");
  await until(() => page.text().join() === "uno,eins", "the edited question's answer");
  await close();
});

test("an approval and a question are answered where they stand", async () => {
  await open();
  say("dive");
  const agent = await gateway.task();
  agent.emit("tool_call", { call_id: "c", name: "dive", arguments: { m: 3 } });
  const approved = agent.ask("May I?", { kind: "approval", call_id: "c", tool: "dive" });
  await until(() => messages().at(-1)?.status?.type === "requires-action", "the approval");
  const [call] = messages().at(-1).content;
  assert.equal(call.approval.prompt, "May I?");
  await thread().getMessageById(messages().at(-1).id).getMessagePartByIndex(0).respondToToolApproval({ approved: true });
  assert.equal(await approved, true);
  agent.emit("tool_result", { call_id: "c", name: "dive", output: "wet" });
  const which = agent.ask("Which way?");
  await until(() => messages().at(-1)?.content?.length === 2, "the question");
  await thread().getMessageById(messages().at(-1).id).getMessagePartByIndex(1).respondToToolApproval({ text: "down" });
  assert.equal(await which, "down");
  agent.complete("Done.");
  await until(() => messages().at(-1)?.status?.type === "complete", "the end");
  assert.equal(messages().at(-1).content[0].approval.approved, true);
  assert.equal(messages().at(-1).content[1].approval.text, "down");
  await close();
});

test("a failure is a sentence, and so is a message that was refused", async () => {
  await open();
  say("one");
  (await gateway.task()).fail({ message: "agent_error: Traceback …" });
  await until(() => messages().at(-1)?.status?.reason === "error", "the failure");
  assert.equal(messages().at(-1).status.error, "The assistant broke off.");
  gateway.refuse("chat", { code: "too_large" });
  say("too long");
  await until(() => messages().at(-1)?.status?.error === "This is too long to be sent.", "the refusal");
  await close();
});

test("by its types it is a store of theirs", async () => {
  await writeFile(
    join(folder, "typed.ts"),
    `import { useExternalStoreRuntime, type AssistantRuntime } from "@assistant-ui/react";
import type { Client } from "@holdfast/client";
import { useHoldfastStore } from "@holdfast/client/assistant-ui";
export const useIt = (client: Client): AssistantRuntime => useExternalStoreRuntime(useHoldfastStore(client, "c-1"));\n`,
  );
  const paths = { "@holdfast/client": [join(client, "dist/index.d.ts")], "@holdfast/client/*": [join(client, "dist/*.d.ts")] };
  const compilerOptions = { strict: true, noEmit: true, target: "ES2022", lib: ["ES2022", "DOM"], module: "ESNext", moduleResolution: "Bundler" };
  const more = { skipLibCheck: true, types: [], paths: { ...paths, react: [join(client, "node_modules/@types/react")] } };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: { ...compilerOptions, ...more }, files: ["typed.ts"] }));
  const { execFile } = await import("node:child_process");
  const said = await new Promise((resolve) => execFile(process.execPath, [of.resolve("typescript/bin/tsc"), "-p", folder], (_, stdout) => resolve(stdout)));
  assert.equal(said, "");
});
