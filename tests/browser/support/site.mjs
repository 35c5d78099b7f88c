// site.mjs -- a page of its own origin with one script, made by esbuild from what tests/clients has installed.

import { once } from "node:events";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { WAIT_MS } from "../../clients/support/until.mjs";
import { World } from "../../clients/support/world.mjs";
import { browser } from "./browser.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const { build } = createRequire(here("../../../web/client/package.json"))("esbuild");

/** A script as one file. */
export async function bundle(contents, plugins = [], { loader = "js", ...options } = {}) {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: here("../../clients"), loader },
    ...options,
    plugins,
    bundle: true,
    write: false,
    format: "esm",
    define: { "process.env.NODE_ENV": '"production"' },
    logLevel: "error",
  });
  return outputFiles[0].text;
}

export const CLIENTS = here("../../clients");

/** A gateway that knows the page's origin, a guest's token, and the page. makeScript: (base, token) => the script. */
export async function site(t, makeScript, config = {}) {
  let script = "";
  const server = createServer((request, response) => {
    const isScript = request.url === "/page.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? script : '<div id="root"></div><script type="module" src="/page.js"></script>');
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const origin = `http://127.0.0.1:${server.address().port}`;
  const world = await new World({ origins: [origin], ...config }).open();
  t.after(() => world.close());
  const { token } = await world.guest();
  script = await makeScript(world.base, token);
  const page = await (await browser()).newPage();
  t.after(() => page.close());
  page.setDefaultTimeout(WAIT_MS);
  await page.goto(origin);
  return { page, world, token };
}
