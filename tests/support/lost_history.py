"""A gateway by script, whose store has lost what it had committed: a real one needs a database that failed over.

Its one task has two events in epoch 5. Then its connection is cut, and in epoch 6 these numbers name other events."""

import asyncio
import contextlib
import json
import threading

import websockets

IDS = {"conversation_id": "c", "task_id": "t"}
EPOCHS = [(5, [("task.created", {}), ("token", {"text": "old"})]),
          (6, [("task.created", {}), ("token", {"text": "new"}), ("task.completed", {"status": "completed", "output": "new"})])]


class LostHistory:
    """asked: (after, epoch) of each resume."""

    def __init__(self):
        self.asked = []
        self.epochs = list(EPOCHS)

    async def serve(self, wire):
        epoch, events = self.epochs.pop(0)
        async for message in wire:
            for line in map(json.loads, message.splitlines()):
                answer = getattr(self, "on_" + line["type"], None)
                if answer and await answer(wire, line, epoch, events) and epoch == 5:
                    await wire.close()

    async def on_hello(self, wire, line, epoch, _):
        await wire.send(json.dumps({"type": "welcome", "id": line.get("id"), "owner": "u", "epoch": epoch}))

    async def on_chat(self, wire, line, _, events):
        task = {**IDS, "status": "running", "agent": "a", "type": "chat", "head": 1}
        await wire.send(json.dumps({"type": "started", "id": line["id"], "task": task}))
        return await self.tell(wire, events)

    async def on_resume(self, wire, line, epoch, events):
        self.asked.append((line["after"], line.get("epoch")))
        if line["after"] > 0 and line.get("epoch", 0) < epoch:
            await wire.send(json.dumps({"type": "error", "id": line["id"], "code": "out_of_range", "head": 90,
                                        "message": "of a history that the store has lost"}))
            return False
        task = {**IDS, "status": "running", "agent": "a", "head": len(events)}
        await wire.send(json.dumps({"type": "resumed", "id": line["id"], "task": task, "after": 0, "head": len(events),
                                    "epoch": epoch}))
        return await self.tell(wire, events)

    @staticmethod
    async def tell(wire, events):
        for seq, (name, data) in enumerate(events, 1):
            await wire.send(json.dumps({"type": "event", "event": name, "seq": seq, "ts": 1, "data": data, **IDS}))
        return True


@contextlib.asynccontextmanager
async def listening(gateway):
    """The port at which it listens."""
    async with websockets.serve(gateway.serve, "127.0.0.1", 0, subprotocols=["holdfast.v1"]) as server:
        yield server.sockets[0].getsockname()[1]


@contextlib.contextmanager
def beside(gateway):
    """The same, on a thread of its own."""
    loop, is_there, port = asyncio.new_event_loop(), threading.Event(), []

    async def run():
        async with listening(gateway) as its:
            port.append(its)
            is_there.set()
            await over.wait()

    over = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        is_there.wait()
        yield port[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()
