// console.test.mjs -- the operator's console in a browser: its address, what it shows, what its buttons do.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { browser } from "./support/browser.mjs";
import { Gateway } from "./support/gateway.mjs";
import { axeSource } from "./support/states.mjs";

const PROGRAM = process.env.HOLDFAST ?? fileURLToPath(new URL("../../build/holdfast", import.meta.url));
const WAIT_MS = 30_000;
const AGENTS = [{ name: "sleeper", kind: "exec", default: true, command: ["/bin/sleep", "600"], grace_s: 1 }];

/** A gateway, its console, and a browser's context; all of it ends with the test. */
async function desk(t, config = {}) {
  const gateway = new Gateway({ agents: AGENTS, drain_s: 1, ...config });
  await gateway.start();
  const context = await (await browser()).newContext({ viewport: { width: 1280, height: 900 } });
  context.setDefaultTimeout(WAIT_MS);
  const consoles = [];
  t.after(async () => {
    await context.close();
    for (const one of consoles) if (one.exitCode === null) one.kill("SIGKILL");
    await gateway.remove();
  });
  /** Starts `holdfast admin console` and returns the address that it prints. */
  const address = async () => {
    const options = ["--config", join(gateway.folder, "config.json"), "--data", join(gateway.folder, "data")];
    const process_ = spawn(PROGRAM, ["admin", "console", ...options], { stdio: ["ignore", "pipe", "inherit"] });
    consoles.push(process_);
    const [line] = await once(createInterface({ input: process_.stdout }), "line");
    return line.match(/http:\S+/)[0];
  };
  /** A page, with what its policy has refused. */
  const open = async (url) => {
    const page = await context.newPage();
    page.faults = [];
    page.on("pageerror", (error) => page.faults.push(String(error)));
    await page.addInitScript(() => {
      window.refused = [];
      addEventListener("securitypolicyviolation", (event) => window.refused.push(event.violatedDirective));
    });
    await page.goto(url);
    return page;
  };
  return { gateway, context, address, open };
}

const live = (page) => page.waitForSelector("#live[data-state=live]");
const rowOf = (page, table, text) => page.locator(`#${table} tbody tr`).filter({ hasText: text });
const says = (page, text) => page.waitForSelector(`#said:text-is("${text}")`);

/** A guest with a running task, and a reader of its events. */
async function guest(gateway, conversation) {
  const base = `http://127.0.0.1:${gateway.port}/v1`;
  const { owner, token } = await (await fetch(`${base}/guest`, { method: "POST" })).json();
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const tasks = `${base}/conversations/${conversation}/tasks`;
  const made = await fetch(tasks, { method: "POST", headers, body: JSON.stringify({ message: "sleep" }) });
  const { task } = await made.json();
  const events = await fetch(`${tasks}/${task.task_id}/events`, { headers });
  const rest = events.text().then((text) => ({ text }), (error) => ({ error }));
  return { owner, task, rest };
}

test("it shows who is connected and what runs, and its buttons are orders", async (t) => {
  const { gateway, address, open } = await desk(t);
  const url = await address();
  const page = await open(url);
  await live(page);
  assert.equal(page.url(), url.split("#")[0]); // the token is gone from the address
  const ann = await guest(gateway, "c-ann");
  const bob = await guest(gateway, "c-bob");
  const task = rowOf(page, "tasks", ann.task.task_id);
  for (const each of [ann, bob]) {
    await rowOf(page, "tasks", each.task.task_id).waitFor();
    await rowOf(page, "connections", each.owner).waitFor();
  }
  const names = await page.locator("#board tbody button").evaluateAll((all) => all.map((each) => each.getAttribute("aria-label")));
  assert.equal(new Set(names).size, names.length, `each button is named by its row: ${names}`);
  for (const { task, owner } of [ann, bob]) assert.ok(names.includes(`Cancel ${task.task_id} of ${owner}`), names.join());
  await page.fill("#owner", bob.owner);
  await task.waitFor({ state: "detached" });
  await rowOf(page, "tasks", bob.task.task_id).waitFor();
  await page.fill("#owner", "");
  await task.waitFor();
  await task.getByRole("button", { name: "Cancel" }).click();
  await page.click("#ask button[value=no]");
  await task.getByRole("button", { name: "Cancel" }).click();
  await page.click("#ask button[value=yes]");
  await says(page, "It stops");
  assert.match((await ann.rest).text, /event: task\.cancelled|"status":"cancelled"/);
  await task.waitFor({ state: "detached" });
  await page.waitForSelector("[aria-label=Tasks]:focus"); // its button had the focus
  await rowOf(page, "connections", bob.owner).getByRole("button", { name: "Kick" }).click();
  await says(page, `${bob.owner} is disconnected`);
  assert.ok((await bob.rest).error); // a cut, no clean end: the task runs on
  await rowOf(page, "connections", bob.owner).waitFor({ state: "detached" });
  assert.equal(await rowOf(page, "tasks", bob.task.task_id).count(), 1);
  await page.waitForSelector("#rate-tasks strong:text-is('1')");
  assert.deepEqual(page.faults, []);
  assert.deepEqual(await page.evaluate(() => window.refused), []);
});

test("its address works once, its tab lasts over a reload, and no other one gets in", async (t) => {
  const { address, open, context } = await desk(t);
  const url = await address();
  const page = await open(url);
  await live(page);
  await page.reload();
  await live(page);
  assert.deepEqual(await context.cookies(), []);
  const second = await open(url);
  await second.waitForSelector("#why:text-is('This address was used already. Start the console again for another one.')");
  assert.equal(await second.locator("#board").isVisible(), false);
  await second.fill("#token", "0".repeat(64));
  await second.click("#sign-in button");
  await second.waitForSelector("#why:text-is(\"The token is not an operator's, or has expired.\")");
});

test("an owner is locked out and let in, limits hit are seen, and it finds the gateway again", async (t) => {
  const { gateway, address, open } = await desk(t, { limits: { tasks_per_owner: 1 } });
  const page = await open(await address());
  await live(page);
  const ann = await guest(gateway, "c-ann");
  await rowOf(page, "connections", ann.owner).getByRole("button", { name: "Revoke" }).click();
  await page.click("#ask button[value=yes]");
  await says(page, `${ann.owner} is locked out`);
  assert.ok((await ann.rest).error);
  await rowOf(page, "revoked", ann.owner).getByRole("button", { name: "Lift" }).click();
  await rowOf(page, "revoked", ann.owner).waitFor({ state: "detached" });
  const base = `http://127.0.0.1:${gateway.port}/v1/conversations/c/tasks`;
  assert.equal((await fetch(base, { headers: { Authorization: "Bearer x" } })).status, 401);
  await rowOf(page, "hits", "refusals cause=token").locator("td.bad").waitFor();
  await rowOf(page, "nodes", "serving").getByRole("button", { name: "Drain" }).click();
  await page.click("#ask button[value=yes]");
  await page.waitForSelector("#live[data-state=lost]");
  await gateway.start(); // the same data, another port: the socket is where it was
  await live(page);
  assert.deepEqual(page.faults, []);
});

test("axe finds nothing, in the light and in the dark, on a desk and on a phone", async (t) => {
  const { gateway, address, open } = await desk(t);
  const page = await open(await address());
  await live(page);
  const ann = await guest(gateway, "c-ann");
  await rowOf(page, "tasks", ann.task.task_id).waitFor();
  await page.evaluate(await axeSource());
  for (const colorScheme of ["light", "dark"])
    for (const width of [1280, 390]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 844 });
      const { violations } = await page.evaluate(() => window.axe.run());
      assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes[0].html]), []);
      const sideways = () => document.documentElement.scrollWidth > document.documentElement.clientWidth;
      assert.equal(await page.evaluate(sideways), false);
    }
});

test("with the operator's claim a token opens it at the gateway itself", async (t) => {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const key = "a secret of more than thirty-two bytes, for the tests";
  const secret = join(process.env.TMPDIR ?? "/tmp", `holdfast-console-${process.pid}.key`);
  await writeFile(secret, key, { mode: 0o600 });
  const sign = (claims) => {
    const text = `${part({ alg: "HS256", kid: "k" })}.${part({ sub: "olga", exp: Math.floor(Date.now() / 1000) + 600, ...claims })}`;
    return `${text}.${createHmac("sha256", key).update(text).digest("base64url")}`;
  };
  const auth = { keys: [{ kid: "k", alg: "HS256", secret_file: secret }], admin_claim: "operator" };
  const { gateway, open } = await desk(t, { auth });
  const page = await open(`http://127.0.0.1:${gateway.port}/console/`);
  const signIn = async (token) => {
    await page.fill("#token", token);
    await page.click("#sign-in button");
  };
  await page.waitForSelector("#sign-in:visible");
  await signIn(sign({}));
  await page.waitForSelector("#why:text-is(\"The token is not an operator's, or has expired.\")");
  await signIn(sign({ operator: true }));
  await live(page);
  await rowOf(page, "nodes", "serving").waitFor();
  assert.deepEqual(page.faults, []);
  assert.deepEqual(await page.evaluate(() => window.refused), []);
});
