"""A worker: serves agents of a Holdfast gateway from anywhere, over a WebSocket that it opens itself.

    async def shout(run: Run) -> None:
        await run.say("token", text=run.input.upper())

    asyncio.run(Worker("wss://example.org/v1/worker", "gpu", secret, {"shout": shout}, runs=4).serve())

A connection that breaks loses nothing: both sides number their lines, and send again what the other has not received
(section 10 of proto/PROTOCOL.md).  Needs Python 3.10 and the package websockets.
"""

import asyncio
import json
import logging
import random
import uuid
from collections import defaultdict
from contextlib import suppress
from typing import Any, Awaitable, Callable

import websockets

Line = dict[str, Any]
Agent = Callable[["Run"], Awaitable[None]]


class Run:
    """A task for an agent.  A cancel raises CancelledError in it; what it still says then counts."""

    def __init__(self, worker: "Worker", line: Line) -> None:
        self.worker, self.line, self.id, self.input = worker, line, line["run"], line["input"]
        self.answers: defaultdict[str, asyncio.Queue[Line]] = defaultdict(asyncio.Queue)  # by call_id and input_id
        self.messages = self.answers["message"]  # its inbox
        self.unsaved: dict[int, str] = {}  # lines that are not on the gateway's disk yet
        self.said, self.received = 0, line["n"]
        self.task = asyncio.create_task(self.carry_out(worker.agents[line["agent"]]))

    async def say(self, event: str, **data: Any) -> None:
        await self.put(event=event, data=data)

    async def call(self, call: str, **fields: Any) -> Line:
        """A call of section 8 ("tool", "spawn", "send", "cancel"), and the line that answers it."""
        return await self.answer(key := uuid.uuid4().hex, call=call, call_id=key, **fields)

    async def ask(self, prompt: str, **data: Any) -> Any:
        """A question to the user, and the answer; None when it expired."""
        data = {"kind": "question", "prompt": prompt, **data, "input_id": uuid.uuid4().hex}
        return (await self.answer(data["input_id"], event="input_required", data=data))["answer"]

    async def answer(self, key: str, **line: Any) -> Line:
        await self.put(**line)
        try:
            return await self.answers[key].get()
        finally:
            del self.answers[key]

    async def put(self, **line: Any) -> None:
        await self.worker.welcome.wait()
        self.said += 1
        self.unsaved[self.said] = text = json.dumps({"run": self.id, "n": self.said, **line})
        await self.worker.send(text)  # waits while the gateway does not read

    async def carry_out(self, agent: Agent) -> None:
        try:
            await agent(self)
            await self.put(end="done")
        except (Exception, asyncio.CancelledError) as fault:  # it is the end of the run, not of the worker
            await self.put(end="failed", error=f"{type(fault).__name__}: {fault}")


class Worker:
    def __init__(self, url: str, name: str, secret: str, agents: dict[str, Agent], runs: int = 4) -> None:
        self.url, self.agents, self.draining = url, agents, False
        self.hello = dict(worker=name, secret=secret, agents=list(agents), runs=runs, instance=uuid.uuid4().hex)
        self.runs: dict[str, Run] = {}
        self.welcome = asyncio.Event()  # set while the connection may carry lines of runs

    async def serve(self) -> None:
        """Comes back whenever the connection breaks; returns when it is drained and its last run has ended."""
        pause = 0.1
        while not self.draining or self.runs:
            with suppress(OSError, asyncio.TimeoutError, websockets.WebSocketException):
                async with websockets.connect(self.url, subprotocols=["holdfast.worker.v1"], max_size=None) as self.socket:
                    received = {run.id: run.received for run in self.runs.values()}
                    await self.socket.send(json.dumps({"type": "hello", **self.hello, "open": received}))
                    async for message in self.socket:
                        for line in map(json.loads, filter(None, message.split("\n"))):
                            await self.take(line, self.runs.get(line.get("run")))
                        if self.draining and not self.runs:
                            return
            pause = 0.1 if self.welcome.is_set() else min(2 * pause, 10)
            self.welcome.clear()
            await asyncio.sleep(pause * random.random())

    async def drain(self) -> None:
        """Takes no more runs."""
        self.draining = True
        await self.send('{"type":"drain"}')

    async def send(self, text: str) -> None:
        with suppress(websockets.ConnectionClosed):  # the next connection carries it
            if self.welcome.is_set():
                await self.socket.send(text)

    async def take(self, line: Line, run: Run | None) -> None:
        match line["type"]:
            case "welcome": await self.go_on(line["open"])
            case "drain": self.draining = True
            case "error": logging.warning("the gateway says: %s", line["message"])
            case "run": run = self.runs.setdefault(line["run"], run or Run(self, line))
            case "cancel" if run: asyncio.get_running_loop().call_soon(run.task.cancel)  # not before it has begun
            case "ack" if run: run.unsaved = {n: text for n, text in run.unsaved.items() if n > line["n"]}
            case "gone" if run: self.runs.pop(run.id).task.cancel()
            case _ if run and "n" in line:
                run.answers[line.get("call_id") or line.get("input_id") or "message"].put_nowait(line)
        if run and "n" in line and line["type"] != "ack":
            run.received = line["n"]
            await self.send(json.dumps({"type": "ack", "run": run.id, "n": run.received}))

    async def go_on(self, saved: dict[str, int]) -> None:
        for over in self.runs.keys() - saved.keys():
            self.runs.pop(over).task.cancel()
        for run in self.runs.values():
            await self.take({"type": "ack", "n": saved[run.id]}, run)
            for text in run.unsaved.values():
                await self.socket.send(text)
        self.welcome.set()
        if self.draining:
            await self.drain()
