// readme.test.mjs -- every block of code in README.md, and in the worker's, as whoever pastes it has it: with the
// types of the package under strict rules; Vue's and Svelte's by their compilers, then drawn; the configuration by the
// gateway; and every name in the tables of the API is there, and every public one in the tables.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import ts from "typescript";

const run = promisify(execFile);
const at = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const ROOT = at("../../");
const PROGRAM = process.env.HOLDFAST ?? join(ROOT, "build/holdfast");
const stock = (name) => join(ROOT, "tests/clients/node_modules", name);
const heavy = join(ROOT, "tests/clients/assistant_ui/node_modules/@assistant-ui/react"); // ./dev test-all has it

const readme = await readFile(at("README.md"), "utf8");
const blocksOf = (text) =>
  [...text.matchAll(/^```(\w*)\n([^]*?)^```$/gm)].map(([, language, code], n) => ({ n, language, code }));
const blocks = [
  ...blocksOf(readme),
  ...blocksOf(await readFile(at("../worker/README.md"), "utf8")).map((one) => ({ ...one, n: `worker-${one.n}` })),
];
const of = (...languages) => blocks.filter(({ language }) => languages.includes(language));

/** A reader of the page has these: the objects that it calls so, and components of the own application. */
const WORLD = `
import type { ReactNode } from "react";
import type { Client, Conversation, HoldfastError, Part, Task, Turn as Step, connect as connects } from "@holdfast/client";
type As<P> = (props: P) => ReactNode;
type Of<T extends Part["type"]> = Extract<Part, { type: T }>;
declare global {
  const connect: typeof connects;
  const client: Client, conversation: Conversation, turn: Step, error: HoldfastError;
  const url: string, id: string, token: string, file: File, props: { id: string }, session: { user: string };
  const kept: { get(): Promise<string | undefined>; put(cursor: string): void };
  function log(...what: unknown[]): void;
  const Turn: As<{ input: string | null; text: string; task: Task | null }>;
  const Markdown: As<{ children: string }>, Folded: As<{ children: string }>;
  const ToolCard: As<Of<"tool">["tool"]>, Question: As<Of<"question">["question"] & { task: Task }>;
  const Child: As<Of<"child">["child"]>, Download: As<Of<"file">["file"]>;
  const Inbox: As<Of<"message">["message"]>, Custom: As<Of<"custom">["custom"]>;
  interface ImportMeta { env: { DEV: boolean } }
  var process: { env: Record<string, string | undefined>; on(name: string, listener: () => void): void };
}`;

/** Its places for what is not installed here. */
const ELSEWHERE = `
declare module "@testing-library/react" {
  export function render(what: import("react").ReactNode): void;
  export const screen: { findByText(text: string): Promise<Element> };
  export const fireEvent: { click(element: Element): void };
}`;
const WITHOUT_HEAVY = `
declare module "@assistant-ui/react" {
  type Store = { messages: readonly unknown[]; isRunning: boolean; onNew(message: never): Promise<void> };
  export function useExternalStoreRuntime(store: Store): object;
  export function AssistantRuntimeProvider(props: { runtime: object; children: unknown }): import("react").ReactNode;
}`;
const CHAT = `import type { Client } from "@holdfast/client";
export declare const Chat: (props: { client: Client }) => import("react").ReactNode;`;

let project;
before(async () => {
  project = await mkdtemp(join(tmpdir(), "holdfast-readme-"));
  await mkdir(join(project, "node_modules/@holdfast"), { recursive: true });
  await symlink(at("."), join(project, "node_modules/@holdfast/client"));
  for (const name of ["react", "react-dom", "vue", "svelte", "solid-js", "@types"])
    await symlink(at(`node_modules/${name}`), join(project, "node_modules", name));
  await writeFile(join(project, "package.json"), '{ "private": true, "type": "module" }');
});
after(() => rm(project, { recursive: true, force: true }));

async function put(name, text) {
  await mkdir(dirname(join(project, name)), { recursive: true });
  await writeFile(join(project, name), text);
  return join(project, name);
}

/** A block as a module: a \`return\` of its own stands in a component. */
function moduleOf({ code }) {
  const pragma = code.includes("@holdfast/client/solid") ? "/** @jsxImportSource solid-js */\n" : "";
  if (!/^return /m.test(code)) return `${pragma}${code}\nexport {};\n`;
  const lines = code.split("\n");
  const imports = lines.filter((line) => line.startsWith("import "));
  const others = lines.filter((line) => !line.startsWith("import "));
  return `${pragma}${imports.join("\n")}\nexport function Component() {\n${others.join("\n")}}\n`;
}

/** The name in the first line of a file that others import, else one of the test's. */
const nameOf = ({ n, language, code }) =>
  /^\/\/ (app\/[\w.]+)\n/.exec(code)?.[1] ?? `block-${n}.${language.includes("sx") ? "tsx" : "ts"}`;

/** "file:line: message" of each fault of these files. */
function faultsOf(files) {
  const program = ts.createProgram(files, {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noEmit: true,
    skipLibCheck: true,
    target: ts.ScriptTarget.ES2022,
    lib: ["lib.es2022.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts"],
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    jsx: ts.JsxEmit.ReactJSX,
    types: [],
    paths: {
      ai: [stock("ai")],
      "@ai-sdk/react": [stock("@ai-sdk/react")],
      "@holdfast/worker": [join(ROOT, "web/worker/src/index.ts")],
      ...(existsSync(heavy) && { "@assistant-ui/react": [heavy] }),
    },
  });
  const isOurs = ({ file, code }) =>
    files.includes(file?.fileName) && !(isPlain(file.fileName) && code >= 7005 && code <= 7053); // implicit any
  return ts
    .getPreEmitDiagnostics(program)
    .filter(isOurs)
    .map(({ file, start, messageText }) => {
      const { line } = file.getLineAndCharacterOfPosition(start);
      return `${file.fileName.slice(project.length + 1)}:${line + 1}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`;
    });
}
const plain = new Set();
const isPlain = (name) => plain.has(name); // JavaScript names no types

test("no block is of a language that nobody looks at", () => {
  const known = ["js", "jsx", "ts", "tsx", "json", "vue", "svelte"];
  assert.deepEqual(blocks.filter(({ language }) => !known.includes(language)), []);
  assert.ok(of("js", "jsx", "ts", "tsx").length >= 20);
});

// ---------------------------------------------------------------- types

/** Tables of names: [heading, which table below it, the type, what is told elsewhere]. */
const TABLES = [
  ["The client", 0, "Options", ""],
  ["The client", 1, "Client", "retryAt | changes | subscribe | version"],
  ["Why it does not connect", 0, "Causes", ""],
  ["Conversations", 0, "Conversation", "id | branch | task | changes | subscribe | version"],
  ["Tasks", 0, "Task", "id | conversationId | changes | subscribe | version"],
  ["The outbox", 0, "Outgoing", "conversationId | changes | subscribe | version"],
  ["Injected faults", 0, "Faults", ""],
];

function namesOf(heading, which) {
  const section = readme.split(new RegExp(`^#+ ${heading}$`, "m"))[1].split(/^#+ /m)[0];
  const table = section.match(/^(\|.*\n)+/gm)[which].trim().split("\n").slice(2);
  const cells = table.map((row) => row.split(" | ")[0]);
  const said = heading === "Injected faults" ? table : cells; // one is told beside another
  return said.flatMap((cell) => [...cell.matchAll(/`(\w+)[^`]*`/g)].map(([, name]) => name));
}

test("what the tables name is there, and what is public is in the tables", async () => {
  const lines = TABLES.map(([heading, which, type, rest], i) => {
    const names = namesOf(heading, which).map((name) => JSON.stringify(name)).join(" | ");
    const others = rest.replace(/\w+/g, '"$&"');
    return `const named${i}: keyof ${type} = null! as ${names};
const whole${i}: ${names} | ${others || "never"} = null! as Exclude<keyof ${type}, "prototype">;`;
  });
  const file = await put("tables.ts", `import type { Cause, Client, Conversation, Faults, Options, Outgoing, Task } from "@holdfast/client";
type Causes = { [C in Cause]: 1 };
${lines.join("\n")}
export {};\n`);
  assert.deepEqual(faultsOf([file]), []);
});

test("each block has the types of the package", { timeout: 200_000 }, async () => {
  const files = [await put("world.d.ts", WORLD), await put("elsewhere.d.ts", ELSEWHERE), await put("Chat.d.ts", CHAT)];
  if (!existsSync(heavy)) files.push(await put("heavy.d.ts", WITHOUT_HEAVY));
  for (const block of of("js", "jsx", "ts", "tsx")) {
    const file = await put(nameOf(block), moduleOf(block));
    files.push(file);
    if (block.language.startsWith("js")) plain.add(file);
  }
  assert.deepEqual(faultsOf(files), []);
});

// ---------------------------------------------------------------- run

test("the configuration is one", async () => {
  for (const { code } of of("json")) await run(PROGRAM, ["check-config", await put("config.json", code)]);
});

/** A client of a gateway in memory, and a conversation with one answer. */
async function answered() {
  const { connect } = await import(pathToFileURL(at("dist/index.js")).href);
  const { FakeGateway } = await import(pathToFileURL(at("dist/testing.js")).href);
  const gateway = new FakeGateway({ answer: (task) => task.complete("11 km") });
  const client = connect("ws://fake", gateway.options());
  const conversation = await client.conversation("c-1").open();
  const task = await conversation.ask("How deep?").started;
  await task.result();
  return client;
}

test("the component for Vue is compiled, and draws a conversation", async () => {
  const { parse, compileScript } = await import("vue/compiler-sfc");
  const { createSSRApp } = await import("vue");
  const { renderToString } = await import("vue/server-renderer");
  const [{ code }] = of("vue");
  const { descriptor, errors } = parse(code);
  assert.deepEqual(errors, []);
  const { content } = compileScript(descriptor, { id: "readme", inlineTemplate: true, templateOptions: { ssr: true, ssrCssVars: [] } });
  const { default: Component } = await import(pathToFileURL(await put("Vue.js", content)).href);
  const client = await answered();
  const html = await renderToString(createSSRApp(Component, { client, id: "c-1" }));
  client.close();
  assert.match(html, /<p>How deep\? 11 km<\/p>/);
});

test("the component for Svelte is compiled, and draws a conversation", async () => {
  const { compile } = await import("svelte/compiler");
  const [{ code }] = of("svelte");
  const { js, warnings } = compile(code, { generate: "server", name: "Chat" });
  assert.deepEqual(warnings, []);
  const { default: Component } = await import(pathToFileURL(await put("Svelte.js", js.code)).href);
  const { render } = await import("svelte/server");
  const client = await answered();
  const { body } = await render(Component, { props: { client, id: "c-1" } });
  client.close();
  assert.match(body, /<p>How deep\? 11 km<\/p>/);
});

const PAGE = `
export const Chat = "page";
export const jsx = (_, { client }) => client;
export const render = (client) => {
  const conversation = client.conversation();
  conversation.ask("How deep?");
  fireEvent.click = async () => {
    const [task] = conversation.tasks;
    for await (const { event, data } of task.events()) if (event === "input_required") return task.respond(data.input_id, true);
  };
};
export const screen = { findByText: async () => null };
export const fireEvent = {};
export const jsxs = jsx;`;

test("the test with the fake gateway passes, with a page that asks and clicks", async () => {
  const [block] = of("tsx").filter(({ code }) => code.includes("FakeGateway"));
  const page = await put("page.js", PAGE);
  const entry = await put("faked.tsx", `${block.code}
const [{ events }] = gateway.tasks;
console.log(events.map(({ event }) => event).join(" "));
client.close();\n`);
  const alias = { "@testing-library/react": page, "react/jsx-runtime": page };
  const outfile = join(project, "faked.js");
  await build({ entryPoints: [entry], outfile, bundle: true, format: "esm", jsx: "automatic", alias, plugins: [{
    name: "page",
    setup: (its) => its.onResolve({ filter: /^\.\/Chat$/ }, () => ({ path: page })),
  }] });
  const { stdout } = await run(process.execPath, [outfile], { timeout: 60_000 });
  assert.equal(stdout, "task.created task.started token tool_call tool_result input_required input_received task.completed\n");
});
