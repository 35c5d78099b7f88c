// next.test.mjs -- the recipe for Next.js in web/client/README.md: it is built as it stands there, drawn on
// the server without a connection, and live in the browser, over a reload.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import net from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { World } from "../clients/support/world.mjs";
import { browser } from "./support/browser.mjs";

const WAIT_MS = 60_000;
const home = fileURLToPath(new URL("../clients/next/", import.meta.url));
const client = fileURLToPath(new URL("../../web/client/", import.meta.url));
const next = join(home, "node_modules/next/dist/bin/next");

const files = {
  "app/layout.tsx": `export default function Layout({ children }: { children: React.ReactNode }) {
  return <html lang="en"><body>{children}</body></html>;
}\n`,
  "app/page.tsx": `import { Chat } from "./Chat";
export default function Page() {
  return <main><h1>Ask</h1><Chat id="c-1" /></main>;
}\n`,
  "next.config.mjs": `export default { turbopack: { root: ${JSON.stringify(home)} }, outputFileTracingRoot: ${JSON.stringify(home)} };\n`,
  "package.json": `{ "private": true }\n`,
};

/** The recipe's files, by the names in their first lines. */
async function recipe() {
  const readme = await readFile(join(client, "README.md"), "utf8");
  const found = [...readme.matchAll(/^```tsx?\n(\/\/ (app\/\S+)\n[^]*?)^```$/gm)];
  return Object.fromEntries(found.map(([, text, name]) => [name, text]));
}

async function freePort() {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

function run(folder, env, ...options) {
  const its = spawn(process.execPath, [next, ...options], {
    cwd: folder,
    env: { ...process.env, NEXT_TELEMETRY_DISABLED: "1", CI: "1", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  its.said = "";
  for (const from of [its.stdout, its.stderr]) from.on("data", (bytes) => (its.said += bytes));
  return its;
}

async function served(its, address) {
  for (;;) {
    const reply = await fetch(address).catch(() => null);
    if (reply?.ok) return reply.text();
    assert.equal(its.exitCode, null, its.said);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const skip = existsSync(next) ? false : "Next.js is not installed: ./dev test-all does that";

test("the recipe for Next.js", { skip, timeout: 580_000 }, async (t) => {
  const folder = await mkdtemp(join(home, ".scene-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const installed = join(home, "node_modules/@holdfast/client");
  await rm(installed, { recursive: true, force: true });
  await mkdir(installed, { recursive: true });
  for (const part of ["package.json", "dist"]) await cp(join(client, part), join(installed, part), { recursive: true });
  await mkdir(join(folder, "app"));
  const all = { ...files, ...(await recipe()) };
  assert.ok(all["app/holdfast.ts"] && all["app/Chat.tsx"], "the recipe stands in the README");
  for (const [name, text] of Object.entries(all)) await writeFile(join(folder, name), text);

  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  const world = await new World({ origins: [origin] }).open();
  t.after(() => world.close());
  const env = { NEXT_PUBLIC_HOLDFAST_URL: `${world.base.replace("http", "ws")}/v1/ws` };
  const build = run(folder, env, "build");
  const [code] = await once(build, "exit");
  assert.equal(code, 0, build.said);

  const server = run(folder, env, "start", "--hostname", "127.0.0.1", "--port", String(port));
  t.after(() => server.kill("SIGKILL"));
  const html = await served(server, origin);
  assert.match(html, /<h1>Ask<\/h1><p>One moment…<\/p>/, "drawn on the server");

  const page = await (await browser()).newPage();
  t.after(() => page.close());
  page.setDefaultTimeout(WAIT_MS);
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  await page.goto(origin);
  const question = JSON.stringify([{ token: "Deep" }, { wait: world.gate().path }]);
  await page.fill("input", question);
  await page.click("button");
  await page.waitForSelector("p:has-text('Deep')");
  await page.reload();
  await page.waitForSelector("p:has-text('Deep')");
  await world.network.cut();
  await world.network.restore();
  await page.evaluate(() => dispatchEvent(new Event("online")));
  await page.fill("input", JSON.stringify([{ token: "Wide" }]));
  await page.click("button");
  await page.waitForSelector("p:has-text('Wide')");
  const isTroubleOfTheCut = (text) => /WebSocket connection to|net::ERR_|favicon|404/.test(text);
  assert.deepEqual(faults.filter((text) => !isTroubleOfTheCut(text)), []);
  assert.doesNotMatch(server.said, /error/i);
});
