"""Servers that nobody here wrote, as processes: aimock's faces, and servers on the protocols' own libraries."""

import http.client
import json
import os
import pathlib
import re
import subprocess
import threading

from gateway import WAIT_S

TESTS = pathlib.Path(__file__).resolve().parent.parent
NODE = os.environ.get("HOLDFAST_NODE") or "node"


class Peer:
    """A server of node's that says where it listens; close ends it."""

    def __init__(self, program, *arguments, cwd=None):
        self.process = subprocess.Popen(
            [NODE, str(program), *map(str, arguments)], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd)
        said = []
        for line in self.process.stdout:
            said.append(line)
            listening = re.search(r"listening on (?:http://)?(127\.0\.0\.1:(\d+))", line)
            if listening:
                self.url, self.port = f"http://{listening[1]}", int(listening[2])
                break
        else:
            raise AssertionError(f"{program} does not start: run ./dev test once\n{''.join(said)}")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        connection.request("GET", path)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def close(self):
        self.process.kill()
        self.process.wait()


def aimock(folder, config, fixtures=()):
    """aimock with that configuration, and these fixtures for the faces of models."""
    (folder / "fixtures").mkdir()
    (folder / "fixtures" / "all.json").write_text(json.dumps({"fixtures": list(fixtures)}))
    llm = {"fixtures": str(folder / "fixtures"), "chunkSize": 8, "latency": 2, "logLevel": "silent"}
    (folder / "aimock.json").write_text(json.dumps({"llm": llm, **config}))
    program = TESTS / "models" / "node_modules" / "@copilotkit" / "aimock" / "dist" / "aimock-cli.js"
    return Peer(program, "--config", folder / "aimock.json", "--port", 0)
