"""What programs of users do while the home of their owner is begun again, and the gateway that has their connection
says "later": they wait, and nobody sees an error.  That is how a killed one of several processes looks to them."""

import asyncio
import contextlib
import pathlib
import sys
import threading

import pytest

import nodes
import postgres
import tokens
from gateway import WAIT_S, wait_until
from holdfast import Client, program
from talks import Chat

CLIENT = pathlib.Path(__file__).resolve().parents[2] / "clients" / "python" / "src"
sys.path.append(str(CLIENT))

from holdfast_client import connect  # noqa: E402

if not postgres.programs():
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)

LATER = "this owner"  # another gateway serves it, or will in a moment; the node that serves it cannot be reached now


@pytest.fixture(scope="module")
def pair():
    """A home whose agents are kept, and a front."""
    with contextlib.ExitStack() as ends:
        server = postgres.Postgres()
        ends.callback(server.close)
        server.start()
        cluster = nodes.Nodes(server, "returns", lease_s=nodes.LONG_LEASE_S)
        ends.callback(cluster.close)
        home = cluster.new("home", {"listen": "127.0.0.1:0"}, lasting=True).start()
        cluster.settled(1)
        yield home, cluster.start_front("front")


class Asking(threading.Thread):
    """The Python client asks, and has the answer when it has ended; or what was raised."""

    def __init__(self, gateway, token, message):
        super().__init__()
        self.url, self.token, self.message = f"ws://127.0.0.1:{gateway.port}/v1/ws", token, message
        self.seen, self.states, self.answer = [], set(), None

    def run(self):
        try:
            asyncio.run(asyncio.wait_for(self.ask(), 4 * WAIT_S))
        except Exception as failure:  # noqa: BLE001 (the test looks at it)
            self.answer = failure

    async def ask(self):
        async with connect(self.url, token=self.token) as client:
            task = await client.conversation().ask(self.message)
            async for event in task.events():
                self.states.add(client.state)
                self.seen.append(event.name)
            self.answer = (await task.result()).output


def test_nobody_sees_an_error(pair, tmp_path):
    home, front = pair
    token = tokens.token("u")
    gate = home.path()
    message = program({"token": "a"}, {"wait": gate}, {"token": "b"})
    chat = Chat(front, tmp_path)
    chat.environ["HOLDFAST_TOKEN"] = token
    with Client(front, token=token) as client:
        task = wait_until(lambda: started(client, message), "a task")
    asks = chat.start(message)
    follows = chat.start("--resume", f"{task['conversation_id']}/{task['task_id']}")
    python = Asking(front, token, message)
    python.start()
    asks.until("a")
    follows.until("a")
    wait_until(lambda: "token" in python.seen, "its first text")
    home.kill()
    for command in (asks, follows):
        command.until(LATER, "err")
        command.until("asking again", "err")
    home.start()
    pathlib.Path(gate).touch()
    assert asks.end()[:2] == (0, "ab\n")
    assert follows.end()[:2] == (0, "ab\n")
    python.join(4 * WAIT_S)
    assert python.answer == "ab"


def started(client, message):
    """Slots are open a moment after the table says whose they are."""
    reply = client.ask("chat", message=message, request_key="k")
    return reply.get("task")


def test_what_is_asked_once_says_why_it_is_not_answered(pair, tmp_path):
    """A list, or a cancel of a script's: it is the script's to ask again."""
    home, front = pair
    home.kill()
    chat = Chat(front, tmp_path)
    chat.environ["HOLDFAST_TOKEN"] = tokens.token("u")
    status, out, err = chat.run("--list")
    assert status == 1 and out == "" and LATER in err
    home.start()
