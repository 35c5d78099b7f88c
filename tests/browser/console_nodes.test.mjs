// console_nodes.test.mjs -- the operator's console over two gateways of one store: rows of both, orders to either.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { browser } from "./support/browser.mjs";
import { Gateway } from "./support/gateway.mjs";

const PROGRAM = process.env.HOLDFAST ?? fileURLToPath(new URL("../../build/holdfast", import.meta.url));
const SERVER = fileURLToPath(new URL("../support/postgres.py", import.meta.url));
const WAIT_MS = 30_000;
const AGENTS = [{ name: "sleeper", kind: "exec", default: true, command: ["/bin/sleep", "600"], grace_s: 1 }];
const KEY = "a secret of more than thirty-two bytes, for the tests";
const NAMES = ["one", "two"];
const OWNERS = Array.from({ length: 12 }, (_, i) => `u${i}`); // some of each gateway

const server = (verb, file) => execFileSync("/usr/bin/python3", [SERVER, verb, file]);
const hasServer = () => {
  const said = execFileSync("/usr/bin/python3", ["-c", "import postgres; print(postgres.programs())"], {
    cwd: fileURLToPath(new URL("../support/", import.meta.url)),
  });
  return String(said).trim() !== "";
};

const bearer = (owner) => {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = `${part({ alg: "HS256", kid: "k" })}.${part({ sub: owner, exp: Math.floor(Date.now() / 1000) + 600 })}`;
  return { Authorization: `Bearer ${text}.${createHmac("sha256", KEY).update(text).digest("base64url")}` };
};

/** Two gateways over one server, a page with the first one's console; all of it ends with the test. */
async function desk(t) {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-nodes-"));
  const ends = [() => rm(folder, { recursive: true, force: true })];
  t.after(async () => {
    for (const end of ends.reverse()) await end();
  });
  const file = join(folder, "server");
  server("start", file);
  ends.push(() => server("stop", file));
  const [url] = (await readFile(file, "utf8")).split("\n");
  const at = (name) => join(folder, name);
  await writeFile(at("url"), `${url}\n`);
  for (const name of ["key", "secret"]) await writeFile(at(name), KEY, { mode: 0o600 });
  const gateways = {};
  for (const node of NAMES) {
    gateways[node] = new Gateway({
      agents: AGENTS,
      drain_s: 1,
      auth: { keys: [{ kid: "k", alg: "HS256", secret_file: at("key") }] },
      store: { kind: "postgres", url_file: at("url") },
      cluster: { node, listen: "127.0.0.1:0", secret_file: at("secret"), lease_s: 20 },
    });
    ends.push(() => gateways[node].remove());
    await gateways[node].start();
  }
  const options = ["--config", join(gateways.one.folder, "config.json"), "--data", join(gateways.one.folder, "data")];
  const console_ = spawn(PROGRAM, ["admin", "console", ...options], { stdio: ["ignore", "pipe", "inherit"] });
  ends.push(() => console_.kill("SIGKILL"));
  const [line] = await once(createInterface({ input: console_.stdout }), "line");
  const context = await (await browser()).newContext({ viewport: { width: 1280, height: 900 } });
  context.setDefaultTimeout(WAIT_MS);
  ends.push(() => context.close());
  const page = await context.newPage();
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(String(error)));
  await page.goto(line.match(/http:\S+/)[0]);
  await page.waitForSelector("#live[data-state=live]");
  return { gateways, page };
}

/** Asks again while the owner is on the way from one gateway to the other. */
async function served(url, options) {
  for (const until = Date.now() + WAIT_MS; ; ) {
    const answer = await fetch(url, options);
    if (answer.status !== 503 || Date.now() > until) return answer;
    await answer.body.cancel();
  }
}

/** A running task of that owner, and a reader of its events at that gateway. */
async function begin(gateway, owner) {
  const tasks = `http://127.0.0.1:${gateway.port}/v1/conversations/c/tasks`;
  const headers = { ...bearer(owner), "Content-Type": "application/json" };
  const made = await served(tasks, { method: "POST", headers, body: JSON.stringify({ message: "sleep" }) });
  const { task } = await made.json();
  const events = await served(`${tasks}/${task.task_id}/events`, { headers });
  assert.equal(events.status, 200);
  const rest = events.text().then((text) => ({ text }), (error) => ({ error }));
  return { owner, task, rest };
}

const rowOf = (page, table, ...texts) =>
  texts.reduce((rows, text) => rows.filter({ has: page.locator(`td:text-is("${text}")`) }), page.locator(`#${table} tbody tr`));
const says = (page, text) => page.waitForSelector(`#said:text-is("${text}")`);

test("it shows the rows of both gateways, and its buttons reach either", { skip: !hasServer() }, async (t) => {
  const { gateways, page } = await desk(t);
  for (const name of NAMES) await rowOf(page, "nodes", name, "serving", "yes", "2048").waitFor();
  const begun = [];
  for (const owner of OWNERS) begun.push(await begin(gateways.two, owner));
  for (const { owner } of begun) await rowOf(page, "connections", owner, "two").waitFor();
  await page.waitForSelector(`#rate-tasks strong:text-is("${OWNERS.length}")`);
  const there = [];
  for (const name of NAMES) there.push(await rowOf(page, "tasks", name).count());
  assert.equal(there[0] + there[1], OWNERS.length);
  assert.ok(there[0] > 0 && there[1] > 0, `tasks of each: ${there}`);
  for (const name of NAMES) await rowOf(page, "limits", "tasks", name, String(there[NAMES.indexOf(name)])).waitFor();

  // An order goes where its row is.
  for (const name of NAMES) {
    const id = await rowOf(page, "tasks", name).first().getAttribute("data-key");
    const of = begun.find(({ task }) => id.includes(task.task_id));
    const row = rowOf(page, "tasks", name, of.owner);
    await row.getByRole("button", { name: "Cancel" }).click();
    await page.click("#ask button[value=yes]");
    await says(page, "It stops");
    assert.match((await of.rest).text, /"status":"cancelled"/);
    await row.waitFor({ state: "detached" });
    begun.splice(begun.indexOf(of), 1);
  }
  const [kicked] = begun;
  await rowOf(page, "connections", kicked.owner, "two").getByRole("button", { name: "Kick" }).click();
  await says(page, `${kicked.owner} is disconnected`);
  assert.ok((await kicked.rest).error);
  await rowOf(page, "connections", kicked.owner).waitFor({ state: "detached" });

  // One that does not answer is named, and the rest goes on.
  const pid = Number(await rowOf(page, "nodes", "two").locator("td").nth(6).textContent());
  process.kill(pid, "SIGSTOP");
  try {
    await rowOf(page, "nodes", "two", "silent").waitFor();
    assert.equal(await rowOf(page, "nodes", "two").getByRole("button").count(), 0);
    await rowOf(page, "nodes", "one", "yes").waitFor();
    await rowOf(page, "connections", "two").first().waitFor({ state: "detached" });
    assert.equal(await page.getAttribute("#live", "data-state"), "live");
  } finally {
    process.kill(pid, "SIGCONT");
  }
  await rowOf(page, "nodes", "two", "yes").waitFor();

  // The other one is stopped by its own row's button, and this one serves on.
  await rowOf(page, "nodes", "two").getByRole("button", { name: "Drain" }).click();
  await page.click("#ask button[value=yes]");
  await says(page, "two stops");
  await rowOf(page, "nodes", "two").waitFor({ state: "detached" });
  await rowOf(page, "nodes", "one", "serving", "4096").waitFor();
  assert.deepEqual(page.faults, []);
});
