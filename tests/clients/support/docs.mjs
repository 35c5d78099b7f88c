// docs.mjs -- runs the lines that docs/faces.md gives for a client.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";

/** The output of a section's first program, with the test's gateway, its agent, and a message of its own. */
export async function outputOf(section, world, token, message) {
  const docs = await readFile(new URL("../../../docs/faces.md", import.meta.url), "utf8");
  const [, lines] = docs.split(`\n## ${section}\n`)[1].match(/```js\n(.*?)```/s);
  const program = lines
    .replace("http://127.0.0.1:8080", world.base)
    .replace('"assistant"', '"script"')
    .replace("/assistant/", "/script/")
    .replace("/assistant\"", '/script"')
    .replace('"Count to 3."', JSON.stringify(message));
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--input-type=module", "-e", `const token = process.env.TOKEN;\n${program}`],
    { cwd: new URL("..", import.meta.url), env: { ...process.env, TOKEN: token } },
  );
  return stdout;
}

/** The same of a section's lines for a shell; variables: those that they name. */
export async function outputOfShell(section, world, variables) {
  const docs = await readFile(new URL("../../../docs/faces.md", import.meta.url), "utf8");
  const [, lines] = docs.split(`\n## ${section}\n`)[1].match(/```sh\n(.*?)```/s);
  const env = { ...process.env, ...variables };
  return (await promisify(execFile)("sh", ["-c", lines.replace("http://127.0.0.1:8080", world.base)], { env })).stdout;
}

/** README.md's lines for a client. */
export async function linesOf(client) {
  const readme = await readFile(new URL("../../../README.md", import.meta.url), "utf8");
  return readme.match(new RegExp(`<!-- client: ${client} -->\n\`\`\`js\n(.*?)\`\`\``, "s"))[1];
}
