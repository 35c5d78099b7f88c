"""The fake gateway of `holdfast_client.testing`: what a test does with it; and the same steps leave the same state as in
the built one."""

import asyncio
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "clients" / "python" / "src")]

import pytest  # noqa: E402

from gateway import Gateway  # noqa: E402
from holdfast import program  # noqa: E402

from holdfast_client import HoldfastError, TaskFailed, connect  # noqa: E402
from holdfast_client.testing import FakeGateway  # noqa: E402
from test_client import run  # noqa: E402


def test_test_plays_the_agent_through_cuts():
    async def body():
        async with FakeGateway() as gateway, gateway.connect() as client:
            asked = client.conversation("c-1").ask("hello")
            task = await gateway.task()
            assert (task.input, task.agent, task.type, task.parts) == ("hello", "assistant", "chat", None)
            seen = []

            async def read():
                async for event in (await asked).events():
                    seen.append(event)
                    if event.name == "input_required":
                        await (await asked).respond(event.data["input_id"], "yes")

            reading = asyncio.ensure_future(read())
            task.say("Let me ")
            gateway.drop()
            task.think("hm")
            result = task.call("search", {"query": "sea"})
            result("11 km")
            assert await task.ask("May I?") == "yes"
            assert await task.ask("Really?", kind="approval") == "yes"
            task.say("look.")
            gateway.drop()
            task.complete()
            assert (await asked.result()).output == "Let me look."
            await reading
            assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
            assert [event.data["input_id"] for event in seen if event.name == "input_required"] == ["question-1", "question-2"]
            (row,) = await client.conversations()
            assert (row["title"], row["running"]) == ("hello", 0)

    run(body())


def test_the_example_of_the_readme_is_a_test_that_passes():
    readme = (ROOT / "clients/python/README.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", readme, re.S) if "FakeGateway" in block)
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    run(names["test_answer"]())


def test_task_fails_is_stopped_and_restarts():
    async def body():
        async with FakeGateway(answer=lambda task: task.say(f"heard {task.input}")) as gateway, gateway.connect() as client:
            one = await client.conversation("c").ask("a")
            fake = await gateway.task()
            fake.restart()
            fake.say("anew")
            await one.cancel()
            await fake.stopped.wait()
            with pytest.raises(TaskFailed) as failed:
                await one.result()
            assert (failed.value.status, failed.value.output) == ("cancelled", "anew")
            two = await client.conversation("c").ask([{"type": "text", "text": "b"}, {"type": "file", "file_id": "f"}])
            fake = await gateway.task()
            assert fake.parts[1]["file_id"] == "f" and fake.text == "heard b"
            fake.fail(code="model_error", reason="model_busy")
            with pytest.raises(TaskFailed) as failed:
                await two.result()
            assert failed.value.sentence == "The model is busy. Try again in a moment."
            with pytest.raises(HoldfastError) as late:
                await two.send("too late")
            assert late.value.code == "task_terminated"

    run(body())


def test_refusals_and_a_gateway_that_is_down():
    async def body():
        async with FakeGateway() as gateway:
            gateway.refuse("chat", "overloaded", retry_after_ms=1)
            gateway.refuse("pin", "conflict", "not now")
            gateway.is_down = True
            async with gateway.connect() as client:
                asked = client.conversation("c").ask("hello")
                while client.trouble is None:
                    await asyncio.sleep(0)
                gateway.is_down = False
                (await gateway.task()).complete("there")
                assert (await asked.result()).output == "there"
                assert sum(one["type"] == "chat" for one in gateway.requests) == 2
                with pytest.raises(HoldfastError) as refused:
                    await client.conversation("c").pin()
                assert (refused.value.code, refused.value.message) == ("conflict", "not now")
            gateway.refuse("hello", "unauthorized")
            async with gateway.connect(token="one") as client:
                with pytest.raises(HoldfastError) as refused:
                    await client.live()
                assert refused.value.code == "unauthorized"

    run(body())


# ---------------------------------------------------------------- the same as the built one


async def speak(task):
    """The scripted agent of the built gateway does the same with such a program."""
    for step in json.loads(task.input):
        if "token" in step:
            task.say(step["token"])
        elif "wait" in step:
            while task.live and not pathlib.Path(step["wait"]).exists():
                await asyncio.sleep(0.001)
        elif "hang" in step:
            return
        elif "exit" in step:
            return task.fail()
    task.complete()


class Names:
    """Ids as their place in the order of first sight."""

    def __init__(self):
        self.seen = {}

    def of(self, name):
        return name and self.seen.setdefault(name, len(self.seen) + 1)


async def play(client, gate):
    names, states = Names(), []
    conversation = client.conversation("c-1")

    def told(message):
        ids = [names.of(message.get(key)) for key in ("message_id", "parent_id", "task_id")]
        siblings = [names.of(one) for one in message.get("siblings", [])]
        return ids, siblings, message["role"], message["content"], bool(message.get("partial"))

    async def look(step):
        opened = await client.request("open", {"conversation_id": "c-1"})
        branch = opened.get("branch") or {}
        where = [names.of(branch.get("message_id")), names.of(branch.get("task_id"))]
        path, every = await conversation.history(), await conversation.history(all=True)
        assert [one["message_id"] for one in opened["messages"]] == [one["message_id"] for one in path]
        (row,) = await client.conversations()
        listed = (row["title"], row["running"], bool(row.get("pinned")), bool(row.get("archived")))
        tasks = [(names.of(one["task_id"]), one["status"], names.of(one.get("question_id"))) for one in await conversation.tasks()]
        page = await conversation.history(limit=1, before=path[-1]["message_id"])
        states.append((step, [*map(told, path)], [*map(told, every)], where, listed, tasks, [*map(told, page)]))

    async def ended(asked):
        try:
            return await (await asked).result()
        except TaskFailed as failed:
            return failed.status, failed.output

    await ended(conversation.ask(program({"token": "a"})))
    await look("one")
    first = (await conversation.history())[0]
    slow = await conversation.ask(program({"token": "b"}, {"wait": gate}))
    meanwhile = conversation.ask(program({"token": "c"}))
    await ended(meanwhile)
    pathlib.Path(gate).touch()
    await slow.result()
    await look("side by side")
    await ended(conversation.ask(program({"token": "d"}), edit=first["message_id"]))
    await look("edited")
    answer = (await conversation.history())[-1]
    await (await conversation.regenerate(answer["message_id"])).result()
    await look("again")
    await conversation.branch(first["message_id"])
    await look("the branch before")
    assert await ended(conversation.ask(program({"token": "half"}, {"exit": 3}))) == ("failed", "half")
    await look("failed")
    hangs = await conversation.ask(program({"token": "h"}, {"hang": 1}))
    async for event in hangs.events():
        if event.name == "token":
            await hangs.cancel()
    await look("stopped")
    await conversation.pin()
    await conversation.archive()
    await conversation.rename("named")
    await look("marked")
    with pytest.raises(HoldfastError) as missing:
        await conversation.regenerate("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    await conversation.delete()
    return states, missing.value.code, await client.conversations()


def test_same_steps_leave_the_same_state_as_in_the_built_gateway():
    async def body(server):
        gate = server.path()
        async with connect(f"ws://127.0.0.1:{server.port}") as client:
            built = await play(client, gate)
        pathlib.Path(gate).unlink()
        async with FakeGateway(answer=speak) as gateway, gateway.connect() as client:
            fake = await play(client, gate)
        for one, other in zip(built[0], fake[0]):
            assert one == other
        assert built == fake

    with Gateway() as server:
        run(body(server))
