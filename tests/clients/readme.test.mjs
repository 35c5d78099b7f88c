// readme.test.mjs -- README.md's lines for clients that exist, as they stand there.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";
import { linesOf } from "./support/docs.mjs";
import { World } from "./support/world.mjs";

let world;
test.before(async () => {
  world = await new World().open();
});
test.after(() => world.close());

test("README: openai's lines print the answer", { timeout: 60_000 }, async () => {
  const { token } = await world.guest();
  const program = (await linesOf("openai"))
    .replace("http://127.0.0.1:8080", world.base)
    .replace('"assistant"', '"script"')
    .replace('"Count to 3."', JSON.stringify(JSON.stringify([{ token: "one " }, { token: "two" }])));
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--input-type=module", "-e", `const token = process.env.TOKEN;\n${program}`],
    { cwd: new URL(".", import.meta.url), env: { ...process.env, TOKEN: token } },
  );
  assert.equal(stdout, "one two");
});
