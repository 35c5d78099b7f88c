"""Workers in a test: a gateway's configuration, one by hand, and those of the two libraries."""

import json
import os
import pathlib
import subprocess

from holdfast import Client, new_id

SECRET = "PLANTED-secret-of-a-worker"
EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"
NODE_BINARY = os.environ.get("HOLDFAST_NODE") or "node"


def config(folder, **worker):
    secret = folder / "worker.secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    return {
        "agents": [{"name": "shout", "kind": "worker", "default": True, "tools": ["calculator"], "grace_s": 1,
                    "wait_s": 20},
                   {"name": "again", "kind": "worker", "rerun": True}],
        "workers": [{"name": "gpu", "secret_file": str(secret), "agents": ["shout", "again"], **worker},
                    {"name": "cpu", "secret_file": str(secret), "agents": ["again"]}],
        "worker_grace_s": 30,
    }


class Worker(Client):
    """One connection of a worker, by hand: numbers are the test's own."""

    def __init__(self, gateway, instance=None, *, agents=("shout",), runs=4, received=None, worker="gpu",
                 secret=SECRET):
        super().__init__(gateway, hello=False, path="/v1/worker", subprotocols=["holdfast.worker.v1"])
        self.instance = instance or new_id("i")
        self.taken = 0  # frames of the log that next has given
        self.send({"type": "hello", "worker": worker, "secret": secret, "instance": self.instance,
                   "agents": list(agents), "runs": runs, "open": received or {}})

    def _take_line(self, line):
        assert line.startswith('{"type":"'), line[:200]
        self.log.append(json.loads(line))

    def next(self, kind):
        """The next line of that type; others before it are passed over."""
        for at, line in enumerate(self.scan(self.taken), self.taken):
            if line["type"] == kind:
                self.taken = at + 1
                return line

    def line(self, run, n, **members):
        self.send({"run": run, "n": n, **members})

    def says(self, run, n, text):
        self.line(run, n, event="token", data={"text": text})

    def ack(self, run, n):
        self.send({"type": "ack", "run": run, "n": n})

    def acked(self, run, n):
        """Waits until that line is on disk."""
        while (ack := self.next("ack"))["n"] < n or ack["run"] != run:
            pass

    def cut(self):
        self.sock.close()


PYTHON = """
import asyncio, sys
sys.path.insert(0, sys.argv[3])
from holdfast_worker import Run, Worker

async def shout(run: Run) -> None:
    for n in range(int(run.input)):
        await run.say("token", text=f"{n} ")
        if n % 10 == 9:
            answer = await run.call("tool", name="calculator", arguments={"expression": f"{n}+1"})
            await run.say("custom", event_type="sum", payload=answer["output"])

async def again(run: Run) -> None:
    if run.input == "ask":
        await run.say("final_answer", output=str(await run.ask("which?")))
    elif run.input == "read":
        await run.say("token", text=(await run.messages.get())["content"])
    elif run.input == "fall":
        raise ValueError("over")
    else:
        try:
            await run.messages.get()
        except asyncio.CancelledError:
            await run.say("token", text="bye")
            raise

async def main() -> None:
    worker = Worker(sys.argv[1], "gpu", sys.argv[2], {"shout": shout, "again": again}, runs=8)
    asyncio.get_running_loop().add_signal_handler(15, lambda: asyncio.ensure_future(worker.drain()))
    await worker.serve()

asyncio.run(main())
"""

NODE = """
import { createRequire } from "node:module";
const [url, secret, folder] = process.argv.slice(2);
const { Worker } = await import(`${folder}/worker.mjs`);
const WebSocket = createRequire(`${folder}/x.js`)("ws");

async function shout(run) {
  for (let n = 0; n < Number(run.input); n++) {
    await run.say("token", { text: `${n} ` });
    if (n % 10 !== 9) continue;
    const answer = await run.call("tool", { name: "calculator", arguments: { expression: `${n}+1` } });
    await run.say("custom", { event_type: "sum", payload: answer.output });
  }
}

async function again(run) {
  if (run.input === "ask") await run.say("final_answer", { output: String(await run.ask("which?")) });
  else if (run.input === "read") await run.say("token", { text: (await run.message()).content });
  else if (run.input === "fall") throw "ValueError: over";
  else {
    const cancelled = await run.message().catch((why) => why);
    await run.say("token", { text: "bye" });
    throw cancelled;
  }
}

const worker = new Worker(url, "gpu", secret, { shout, again }, { runs: 8, WebSocket });
process.on("SIGTERM", () => worker.drain());
await worker.serve();
"""


class Library:
    """A worker in one of the two languages."""

    def __init__(self, language, to, folder):
        script = folder / f"worker_{language}.mjs"
        script.write_text({"python": PYTHON, "node": NODE}[language])
        command = ["/usr/bin/python3", "-W", "error::RuntimeWarning"]
        library = EXAMPLES
        if language == "node":
            modules = EXAMPLES.parent / "web" / "worker" / "node_modules"
            command, library = [NODE_BINARY], folder
            build = ("const [modules, source, to] = process.argv.slice(1);"
                     "require(`${modules}/esbuild`).buildSync({entryPoints: [source], outfile: to});")
            subprocess.run([NODE_BINARY, "-e", build, modules, modules.parent / "src" / "index.ts",
                            folder / "worker.mjs"], check=True)
            (folder / "node_modules").symlink_to(modules)
        self.process = subprocess.Popen([*command, script, f"ws://{to.host}:{to.port}/v1/worker", SECRET, library],
                                        stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


class Fleet:
    """Libraries that are ended at the end of a test."""

    def __init__(self, language, to, folder):
        self.of = language, to, folder
        self.all = []

    def start(self):
        self.all.append(Library(*self.of))
        return self.all[-1].process

    def __enter__(self):
        return self

    def __exit__(self, *of):
        for one in self.all:
            one.__exit__(*of)
