// package.test.mjs -- the result of `npm pack`, in a clean project: in Node, with types, in a
// bundler; and the ten lines of the README, run unchanged.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import ts from "typescript";
import { Gateway } from "../../../../tests/browser/support/gateway.mjs";

const run = promisify(execFile);
const here = fileURLToPath(new URL("../../", import.meta.url));
const bin = (path) => join(here, "node_modules", path);
const npm = (args, cwd) =>
  run("npm", args, {
    cwd,
    env: { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` },
  });
/** Node 20 has a WebSocket too, behind a flag. */
const flags = globalThis.WebSocket ? [] : ["--experimental-websocket"];
const node = (file) => run(process.execPath, [...flags, file], { cwd: project });

const gateway = new Gateway({});
let project;

before(async () => {
  project = await mkdtemp(join(tmpdir(), "holdfast-project-"));
  await gateway.start();
  await npm(["pack", "--ignore-scripts", "--silent", "--pack-destination", project], here);
  await write("package.json", JSON.stringify({ name: "clean", private: true, type: "module" }));
  const { version } = JSON.parse(await readFile(join(here, "package.json"), "utf8"));
  const tarball = `holdfast-client-${version}.tgz`;
  await npm(
    ["install", "--offline", "--no-audit", "--no-fund", "--silent", join(project, tarball)],
    project,
  );
});
after(async () => {
  await gateway.remove();
  await rm(project, { recursive: true, force: true });
});

const write = (name, text) => writeFile(join(project, name), text);

/** The lines of the README, which talk to this test's gateway. */
async function tenLines() {
  const readme = await readFile(join(here, "README.md"), "utf8");
  const [, code] = /<!-- run: ten-lines -->\n```js\n(.*?)```/s.exec(readme);
  assert.ok(code.includes("127.0.0.1:8080"));
  assert.ok(code.trim().split("\n").filter(Boolean).length <= 10);
  return code.replace("127.0.0.1:8080", `127.0.0.1:${gateway.port}`);
}

const SAID = "1 2 3 4 5\n1 2 3 4 5\n";

/** Pieces that come late come merged. */
const said = async (file) => (await node(file)).stdout.replaceAll(" \n", " ");

test("the README's ten lines run in Node", async () => {
  await write("ten.js", await tenLines());
  assert.equal(await said("ten.js"), SAID);
});

test("and from a bundle", async () => {
  await write("ten.js", await tenLines());
  await build({
    absWorkingDir: project,
    entryPoints: ["ten.js"],
    bundle: true,
    minify: true,
    splitting: true,
    format: "esm",
    outdir: "bundle",
  });
  assert.equal(await said("bundle/ten.js"), SAID);
});

test("and the hooks, in Node and from a bundle, with the React of the project", async () => {
  const code = `import { useClient, useConversation, useConversations, useTask } from "@holdfast/client/react";
console.log(typeof useClient, typeof useConversation, typeof useConversations, typeof useTask);\n`;
  await write("hooks.js", code);
  await symlink(bin("react"), join(project, "node_modules/react"));
  await build({ absWorkingDir: project, entryPoints: ["hooks.js"], bundle: true, format: "esm", outdir: "bundle" });
  for (const file of ["hooks.js", "bundle/hooks.js"]) {
    assert.equal((await node(file)).stdout, "function function function function\n");
  }
});

test("and what Vue, Svelte and Solid want, and a page's tests, each from an entry of its own", async () => {
  for (const name of ["vue", "solid-js"]) await symlink(bin(name), join(project, "node_modules", name));
  const code = `import * as vue from "@holdfast/client/vue";
import * as svelte from "@holdfast/client/svelte";
import * as solid from "@holdfast/client/solid";
import { connect } from "@holdfast/client";
import { FakeGateway } from "@holdfast/client/testing";
import { HoldfastChatTransport } from "@holdfast/client/ai-sdk";
import { useHoldfastStore } from "@holdfast/client/assistant-ui";
import { sentenceOf } from "@holdfast/client/sentences";
import { diagnose } from "@holdfast/client/trouble";
import { search } from "@holdfast/client/search";
import { share } from "@holdfast/client/sharing";
for (const one of [HoldfastChatTransport, useHoldfastStore, sentenceOf, diagnose, search, share]) if (typeof one !== "function") throw one;
const gateway = new FakeGateway({ answer: (task) => task.complete("faked") });
const client = connect("ws://fake", gateway.options());
const task = await client.conversation().ask("hi").started;
console.log(typeof vue.useTask, typeof svelte.task, typeof solid.createTask, (await task.result()).output);
client.close();\n`;
  await write("others.js", code);
  assert.equal((await node("others.js")).stdout, "function function function faked\n");
  const required = 'const { FakeGateway } = require("@holdfast/client/testing");\nconsole.log(typeof FakeGateway, ...["vue", "svelte", "solid", "ai-sdk", "assistant-ui", "sentences", "trouble", "search", "sharing", "export", "verify", "watch"].map((name) => Object.keys(require(`@holdfast/client/${name}`)).length));\n';
  await write("others.cjs", required);
  assert.equal((await node("others.cjs")).stdout, "function 4 4 4 2 1 4 1 2 7 3 1 1\n");
});

test("and for require, in Node", async () => {
  const code = (await tenLines()).replace(
    'import { connect } from "@holdfast/client";',
    'const { connect } = require("@holdfast/client");\nconst hooks = require("@holdfast/client/react");\nif (!hooks.useTask) throw 1;',
  );
  await write("ten.cjs", `(async () => {${code}})();`);
  assert.equal(await said("ten.cjs"), SAID);
});

test("each entry can be imported and required, and has types however a project looks for them", async () => {
  for (const name of ["react", "vue", "solid-js"]) await symlink(bin(name), join(project, "node_modules", name)).catch(() => {});
  const { exports, name } = JSON.parse(await readFile(join(here, "package.json"), "utf8"));
  const entries = Object.keys(exports).filter((path) => !path.endsWith(".json")).map((path) => name + path.slice(1));
  const code = `import { createRequire } from "node:module";
const require = createRequire(import.meta.url);
for (const name of ${JSON.stringify(entries)}) {
  const names = Object.keys(require(name)).filter((key) => key !== "__esModule").sort().join();
  if (!names || Object.keys(await import(name)).sort().join() !== names) console.log(name, names);
}\n`;
  await write("entries.js", code);
  assert.equal((await node("entries.js")).stdout, "");
  const { Node10, Node16, NodeNext, Bundler } = ts.ModuleResolutionKind;
  for (const moduleResolution of [Node10, Node16, NodeNext, Bundler])
    for (const mode of moduleResolution === Node10 || moduleResolution === Bundler ? [undefined] : [ts.ModuleKind.CommonJS, ts.ModuleKind.ESNext])
      for (const entry of entries) {
        const found = ts.resolveModuleName(entry, join(project, "a.ts"), { moduleResolution }, ts.sys, undefined, undefined, mode);
        const file = found.resolvedModule?.resolvedFileName ?? "";
        assert.match(file, mode === ts.ModuleKind.CommonJS ? /dist\/cjs\/[\w-]+\.d\.ts$/ : /dist\/[\w-]+\.d\.ts$/, `${entry} ${moduleResolution}`);
      }
});

test("it can be debugged: its maps hold the sources; and the hooks say that they are for the browser", async () => {
  const dist = join(project, "node_modules/@holdfast/client/dist/");
  const files = (await readdir(dist)).filter((name) => name.endsWith(".js"));
  for (const file of [...files, "cjs/index.js"]) {
    const map = JSON.parse(await readFile(`${dist}${file}.map`, "utf8"));
    assert.ok(map.sourcesContent.every((source) => source.length > 0), file);
  }
  for (const file of ["react.js", "cjs/react.js", "assistant-ui.js", "cjs/assistant-ui.js"]) {
    assert.match(await readFile(dist + file, "utf8"), /^("use strict";\n)?"use client";/);
  }
});

const TYPED = `
import { connect, HoldfastError, TaskFailed, type Client, type Task, type TaskEvent } from "@holdfast/client";

export async function talk(client: Client, text: string): Promise<string> {
  const outgoing = client.conversation("c-1").ask(text, { when_busy: "enqueue" });
  const task: Task = await outgoing.started;
  for await (const event of task.events()) show(event);
  try {
    return (await task.result()).output;
  } catch (error) {
    if (error instanceof TaskFailed) return error.output;
    throw error instanceof HoldfastError ? new Error(error.code) : error;
  }
}

function show(event: TaskEvent): void {
  if (event.event === "token") event.data.text.toUpperCase();
  if (event.event === "tool_call") event.data.arguments["x"];
  // @ts-expect-error a token has no output
  if (event.event === "token") event.data.output;
}

const client = connect("ws://127.0.0.1/v1/ws", { token: async (stale) => stale });
// @ts-expect-error there is no such state
client.state === "asleep";
// @ts-expect-error a field of the request is missing
void client.request("task", { task_id: "t" });
const { tasks, more }: { tasks: { task_id: string }[]; more?: boolean } = await client.request("tasks", {
  conversation_id: "c",
});
void [tasks, more];
`;

const HOOKS = `
import type { Task } from "@holdfast/client";
import { useTask } from "@holdfast/client/react";

export const progressOf = (task: Task): number => useTask(task).progress ?? 0;
export const statusOf = (task: Task | null): string | undefined => useTask(task)?.status;
// @ts-expect-error without a task there is nothing
export const textOf = (task: Task | null): string => useTask(task).text;
`;

const OWN = `
import type { Part, TaskEvent } from "@holdfast/client";
import { useTask } from "@holdfast/client/react";

declare module "@holdfast/client" {
  interface CustomEvents { price: { euro: number }; mood: { good: boolean } }
  interface Tools { search: { query: string }; clock: { zone: string } }
}

export function told(event: TaskEvent): string | number {
  if (event.event === "custom" && event.data.event_type === "price") return event.data.payload.euro;
  if (event.event === "tool_call" && event.data.name === "search") return event.data.arguments.query;
  // @ts-expect-error a mood has no price
  if (event.event === "custom" && event.data.event_type === "mood") return event.data.payload.euro;
  return 0;
}
export function shown(part: Part): string | number {
  if (part.type === "tool" && part.tool.name === "clock") return part.tool.arguments.zone + (part.tool.output ?? "");
  if (part.type === "custom" && part.custom.event_type === "price") return part.custom.payload.euro;
  // @ts-expect-error there is no such tool
  return part.type === "tool" && part.tool.name === "hammer" ? 1 : 0;
}
export const parts = (view: NonNullable<ReturnType<typeof useTask>>) => view.parts.map(shown);
`;

const TRANSPORT = `
import { connect, type Client } from "@holdfast/client";
import { HoldfastChatTransport, uiMessages } from "@holdfast/client/ai-sdk";
import type { ChatTransport, UIMessage } from "ai";

export const transportOf = (client: Client): ChatTransport<UIMessage> => new HoldfastChatTransport(client);
export const messagesOf = (client: Client): UIMessage[] => uiMessages(client.conversation("c-1"));
`;

test("its transport is one of the AI SDK, and an application's own payloads have types", async () => {
  await write("transport.ts", TRANSPORT);
  await write("own.ts", OWN);
  const ai = fileURLToPath(new URL("../../../../tests/clients/node_modules/ai", import.meta.url));
  const compilerOptions = { strict: true, noEmit: true, target: "ES2022", lib: ["ES2022", "DOM"], module: "ESNext" };
  const paths = { ai: [ai], react: [bin("@types/react")] };
  const more = { moduleResolution: "Bundler", skipLibCheck: true, types: [], paths };
  await write("tsconfig.json", JSON.stringify({ compilerOptions: { ...compilerOptions, ...more }, files: ["transport.ts", "own.ts"] }));
  await run(process.execPath, [bin("typescript/bin/tsc"), "-p", "."], { cwd: project }).catch(({ stdout }) => assert.fail(stdout));
});

/** The same for CommonJS modules, which cannot have `await` at the top. */
const inCjs = (text) => text.replace(/const \{ tasks[\s\S]*$/, "");

for (const [module, moduleResolution, extension, text] of [
  ["NodeNext", "NodeNext", "ts", TYPED],
  ["ESNext", "Bundler", "ts", TYPED],
  ["Node16", "Node16", "cts", inCjs(TYPED)],
  ["CommonJS", "Node10", "ts", inCjs(TYPED)],
]) {
  test(`its types are right for ${moduleResolution}, ${extension}`, async () => {
    await write(`typed.${extension}`, text);
    await write(`hooks.${extension}`, HOOKS);
    await write(
      "tsconfig.json",
      JSON.stringify({
        compilerOptions: {
          strict: true,
          noEmit: true,
          target: "ES2022",
          lib: ["ES2022", "DOM"],
          module,
          moduleResolution,
          types: [],
          paths: { react: [bin("@types/react")] },
        },
        files: [`typed.${extension}`, `hooks.${extension}`],
      }),
    );
    await run(process.execPath, [bin("typescript/bin/tsc"), "-p", "."], { cwd: project }).catch(
      ({ stdout }) => assert.fail(stdout),
    );
  });
}

test("it holds what is needed and no more", async () => {
  const { stdout } = await npm(["pack", "--dry-run", "--json", "--ignore-scripts"], here);
  const paths = JSON.parse(stdout)[0].files.map(({ path }) => path);
  for (const path of [
    "README.md",
    "package.json",
    "dist/index.js",
    "dist/index.d.ts",
    "dist/react.js",
    "dist/worker.js",
  ]) {
    assert.ok(paths.includes(path), path);
  }
  assert.deepEqual(
    paths.filter((path) => !/^(dist\/|README\.md$|package\.json$)/.test(path)),
    [],
  );
});
