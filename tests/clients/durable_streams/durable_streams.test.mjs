// durable_streams.test.mjs -- runs the suite against the gateway's face, and holds it to the known results.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { FAILING, LEFT_OUT } from "./groups.mjs";
import { Writer } from "./writer.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const holdfast = process.env.HOLDFAST ?? join(here, "../../../build/holdfast");
process.env.HOLDFAST = join(dirname(holdfast), "tests", "holdfast_streams");
const { Gateway } = await import("../../browser/support/gateway.mjs");

const limits = { tasks_per_owner: 100_000, tasks: 100_000, subscriptions: 100_000, requests_per_second: 100_000, burst: 100_000 };

async function run(url, report) {
  const vitest = join(here, "node_modules/vitest/vitest.mjs");
  const left = Object.keys(LEFT_OUT).join("|").replaceAll(/[()]/g, "\\$&");
  const child = spawn(
    process.execPath,
    [vitest, "run", "suite.test.mjs", "--reporter=json", `--outputFile=${report}`, "--testTimeout=60000",
      "-t", `^(?!.*(?:${left}))`],
    { cwd: here, env: { ...process.env, STREAMS_URL: url }, stdio: ["ignore", "inherit", "inherit"] },
  );
  await once(child, "exit");
  return JSON.parse(await readFile(report, "utf8")).testResults[0].assertionResults;
}

/** Passed of all, by the suite's outermost groups. */
function tableOf(results) {
  const groups = new Map();
  for (const { ancestorTitles, status } of results) {
    const group = groups.get(ancestorTitles[0]) ?? { passed: 0, all: 0 };
    group.all += 1;
    group.passed += status === "passed" ? 1 : 0;
    groups.set(ancestorTitles[0], group);
  }
  return groups;
}

test("the suite of Durable Streams passes but for what is known", async (t) => {
  const writer = new Writer();
  const folder = await mkdtemp(join(tmpdir(), "holdfast-streams-"));
  const agents = [{ name: "writer", kind: "http", url: await writer.openAgent(), timeout_s: 0 }];
  const origins = ["https://example.com"];
  const gateway = new Gateway({ agents, origins, limits });
  t.after(async () => {
    writer.close();
    await gateway.remove();
    await rm(folder, { recursive: true, force: true });
  });
  await gateway.start();
  const url = await writer.open(gateway.port);
  const results = (await run(url, join(folder, "report.json"))).filter(({ status }) => status !== "skipped" && status !== "pending");
  for (const [group, { passed, all }] of tableOf(results)) t.diagnostic(`${group}: ${passed} of ${all}`);
  const failures = results.filter(({ status }) => status !== "passed");
  const failed = failures.map(({ fullName }) => fullName);
  for (const { fullName, failureMessages } of failures) t.diagnostic(`${fullName}: ${failureMessages[0].slice(0, 500)}`);
  t.diagnostic(`in all: ${results.length - failed.length} of ${results.length}`);
  assert.deepEqual(failed.toSorted(), Object.keys(FAILING).toSorted());
  assert.ok(results.length > 150, "the suite ran");
});
