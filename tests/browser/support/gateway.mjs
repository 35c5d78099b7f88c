// gateway.mjs -- the built gateway, as a process of the test.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const PROGRAM =
  process.env.HOLDFAST ?? fileURLToPath(new URL("../../../build/holdfast", import.meta.url));

export class Gateway {
  port = 0;
  /** Its output on stderr. */
  log = "";
  #process = null;

  /** Programs end with it, unless the configuration says otherwise: tests kill it, and look at what is left.
   * @param {object} config */
  constructor(config) {
    const ending = (agent) => (agent.kind === "exec" ? { after_restart: "fail", ...agent } : agent);
    this.config = config?.agents ? { ...config, agents: config.agents.map(ending) } : config;
  }

  /** Starts it; once more on the same data, and on another port: the old one may be another program's by now. */
  async start() {
    this.folder ??= await mkdtemp(join(tmpdir(), "holdfast-browser-"));
    const config = join(this.folder, "config.json");
    await writeFile(config, JSON.stringify(this.config));
    const data = join(this.folder, "data");
    this.#process = spawn(
      PROGRAM,
      ["serve", "--listen", "127.0.0.1:0", "--data", data, "--config", config],
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    this.#process.stderr.setEncoding("utf8").on("data", (text) => (this.log += text));
    const failed = once(this.#process, "exit").then(([code, signal]) => {
      throw new Error(`the gateway ended (${signal ?? code}) before it was ready:\n${this.log}`);
    });
    const lines = createInterface({ input: this.#process.stdout });
    const [line] = await Promise.race([once(lines, "line"), failed]);
    failed.catch(() => {});
    this.port = Number(JSON.parse(line).listen.split(":").at(-1));
  }

  /** @param {NodeJS.Signals} signal */
  async stop(signal = "SIGTERM") {
    if (!this.#process || this.#process.exitCode !== null) return;
    const ended = once(this.#process, "exit");
    this.#process.kill(signal);
    await ended;
    this.#process = null;
    this.port = 0; // nobody's
  }

  async remove() {
    await this.stop("SIGKILL");
    if (this.folder) await rm(this.folder, { recursive: true, force: true });
  }
}
