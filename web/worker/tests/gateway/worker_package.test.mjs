// worker_package.test.mjs -- the result of `npm pack`, in a clean project: as a module, by require, and with types.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const here = fileURLToPath(new URL("../../", import.meta.url));
const npm = (args, cwd) =>
  run("npm", args, { cwd, env: { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` } });
let project;

before(async () => {
  project = await mkdtemp(join(tmpdir(), "holdfast-worker-"));
  await npm(["pack", "--ignore-scripts", "--silent", "--pack-destination", project], here);
  await writeFile(join(project, "package.json"), JSON.stringify({ name: "clean", private: true, type: "module" }));
  const { version } = JSON.parse(await readFile(join(here, "package.json"), "utf8"));
  await npm(["install", "--offline", "--no-audit", "--no-fund", "--silent",
    join(project, `holdfast-worker-${version}.tgz`)], project);
});
after(() => rm(project, { recursive: true, force: true }));

const files = {
  "a.mjs": `import { Worker } from "@holdfast/worker"; console.log(Worker.name);`,
  "a.cjs": `console.log(require("@holdfast/worker").Worker.name);`,
};
for (const [name, text] of Object.entries(files)) {
  test(`it is there for ${name}`, async () => {
    await writeFile(join(project, name), text);
    assert.equal((await run(process.execPath, [name], { cwd: project })).stdout, "Worker\n");
  });
}

test("its types hold", async () => {
  await writeFile(join(project, "a.ts"), `
    import { type Agent, Worker } from "@holdfast/worker";
    const shout: Agent = async (run) => run.say("token", { text: run.input });
    const worker: Worker = new Worker("ws://x", "gpu", "secret", { shout }, { runs: 2 });
    // @ts-expect-error a number is no agent
    new Worker("ws://x", "gpu", "secret", { shout: 1 });
    void worker.serve();`);
  const tsc = join(here, "node_modules/typescript/bin/tsc");
  await run(process.execPath, [tsc, "--noEmit", "--strict", "--module", "nodenext", "--target", "es2022",
    "--lib", "es2022,dom", "a.ts"], { cwd: project });
});

test("it has nothing but what it needs", async () => {
  const { stdout } = await npm(["pack", "--ignore-scripts", "--dry-run", "--json"], here);
  const names = JSON.parse(stdout)[0].files.map(({ path }) => path).sort();
  assert.deepEqual(names, ["README.md", "dist/cjs/index.d.ts", "dist/cjs/index.js", "dist/cjs/index.js.map",
    "dist/cjs/package.json", "dist/index.d.ts", "dist/index.js", "dist/index.js.map", "package.json"]);
});
