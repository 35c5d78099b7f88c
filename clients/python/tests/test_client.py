"""The Python client against the built gateway, through a wire that can be cut."""

import asyncio
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import ssl
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "clients" / "python" / "src")]

import pytest  # noqa: E402

import tokens  # noqa: E402
from gateway import Gateway, WAIT_S, free_port, refusing_port  # noqa: E402
from holdfast import program  # noqa: E402
from lost_history import LostHistory, listening  # noqa: E402
from relay import Relay  # noqa: E402

from holdfast_client import HoldfastError, TaskFailed, connect, take_over, verify  # noqa: E402
from holdfast_client.task import QUEUE  # noqa: E402

CUTS = int(os.environ.get("HOLDFAST_CUTS", "50"))
FAST = (0.001, 0.02)  # between attempts


@pytest.fixture(scope="module")
def gateway():
    with Gateway() as running:
        yield running


def url(server):
    return f"ws://127.0.0.1:{server.port}/v1/ws"


def run(body):
    """Runs a test's coroutine; nothing that it left behind may have failed in silence."""
    faults = []

    async def guarded():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        await asyncio.wait_for(body, 4 * WAIT_S)

    asyncio.run(guarded())
    assert faults == []


async def released(path):
    """Opens a gate that the scripted agent waits for."""
    pathlib.Path(path).touch()


async def collected(events):
    return [event async for event in events]


def text_of(events):
    return "".join(event.data["text"] for event in events if event.name == "token")


def assert_dense(events, after=0):
    for event in events:
        assert event.first == after + 1
        after = event.seq


def test_the_first_example_of_the_readme_counts_to_five(gateway, capsys):
    readme = (ROOT / "clients/python/README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", readme, re.S)[1]
    with Gateway({"agents": [{"name": "assistant", "kind": "react", "model": "builtin", "default": True}],
                  "models": [{"name": "builtin", "kind": "builtin"}]}) as assistant:
        exec(compile(code.replace("ws://127.0.0.1:8080/v1/ws", url(assistant)), "README.md", "exec"), {})
    assert capsys.readouterr().out.strip().endswith("1 2 3 4 5\n1 2 3 4 5")


def test_answer_through_many_cuts_is_whole_and_said_once(gateway):
    words = 40 * CUTS

    async def body():
        with Relay(gateway) as relay:
            async with connect(url(relay), backoff_s=FAST) as client:
                gate = gateway.path()
                task = await client.conversation().ask(
                    program({"wait": gate}, {"flood": words, "per_s": 2000}, {"final_answer": "x"}))
                seen, cuts = [], 0
                places = set(random.sample(range(3, words), CUTS))
                async for event in task.events(exact=True):
                    seen.append(event)
                    if event.name == "task.started":
                        await released(gate)
                    if event.seq in places:
                        await client.live()
                        relay.cut()
                        cuts += 1
                        while client.state == "live":  # until it is felt
                            await asyncio.sleep(0.001)
                assert_dense(seen)
                assert cuts == CUTS and relay.accepted >= CUTS
                assert sum(event.name == "token" for event in seen) == words
                assert [event.name for event in seen].count("task.created") == 1
                assert seen[-1].name == "task.completed"
                assert len(await client.conversation(task.conversation_id).tasks()) == 1
                assert (await task.result()).output == "x"

    run(body())


def test_message_that_was_asked_while_nobody_answers_starts_once(gateway):
    async def body():
        with Relay(gateway) as relay:
            async with connect(url(relay), backoff_s=FAST) as client:
                await client.live()
                relay.cut_after(b'"started"', 3)  # the confirmation arrives, and the wire is gone
                one = client.conversation("once").ask(program({"token": "a"}))
                task = await one
                assert text_of(await collected(task.events())) == "a"
                assert len(await client.conversation("once").tasks()) == 1
                assert client.outbox.items == []

    run(body())


def test_unsent_message_is_sent_by_the_next_process_and_by_two_of_them_once(tmp_path):
    place = str(tmp_path / "store")
    with Gateway(listen=f"127.0.0.1:{free_port()}") as server:

        async def first():
            async with connect(url(server), store=place, backoff_s=FAST) as client:
                await client.live()
                await asyncio.to_thread(server.stop)
                one = client.conversation("kept").ask("hello")
            with pytest.raises(HoldfastError) as closed:
                await one
            assert closed.value.code == "closed"
            return client.owner

        async def second(owner):
            async with connect(url(server), store=place) as one, connect(url(server), store=place) as two:
                tasks = [await message for message in one.outbox.items + two.outbox.items]
                assert len(tasks) == 2 and tasks[0].task_id == tasks[1].task_id
                assert one.owner == two.owner == owner
                assert len(await one.conversation("kept").tasks()) == 1
                assert one.outbox.items == two.outbox.items == []

        async def both():
            owner = await first()
            await asyncio.to_thread(server.start)
            await second(owner)

        run(both())


def test_messages_are_edited_and_answers_made_again(gateway):
    async def body():
        async with connect(url(gateway)) as client:
            conversation = client.conversation()
            first = await conversation.ask("one")
            await first.result()
            question, answer = await conversation.history()
            again = await conversation.regenerate(answer["message_id"])
            await again.result()
            assert (await conversation.history())[1]["siblings"][0] == answer["message_id"]
            await (await conversation.ask("two", edit=question["message_id"])).result()
            assert [message["content"] for message in await conversation.history()] == ["two", "two"]
            assert len(await conversation.history(all=True)) == 5
            await conversation.branch(answer["message_id"])
            assert (await conversation.history())[1]["message_id"] == answer["message_id"]
            lines = [line async for line in conversation.export()]
            assert lines[-1]["event"] == "task.completed"
            same = await client.import_lines(lines, title="again")
            assert len(await same.history(all=True)) == len(await conversation.history(all=True))
            copy = await conversation.fork(question["message_id"], title="apart")
            assert [message["content"] for message in await copy.history()] == ["one"]
            assert [row["title"] for row in await client.conversations()][0] == "apart"

    run(body())


def test_all_tasks_are_watched_each_event_once(gateway):
    """Over cuts, with a loop that is slower than its queue, and from the cursor of an earlier watch."""

    async def body():
        async with connect(url(gateway)) as asker:
            await asker.live()
            token = asker.welcome["token"]
            seen = {}

            async def read(watch, until, is_new=True):
                async for one in watch:
                    kept = seen.setdefault(one.task_id, [])
                    if not is_new and one.event.seq <= len(kept):
                        continue  # it came behind the cursor that the other watch had
                    assert one.event.seq == len(kept) + 1
                    kept.append(one.event)
                    if sum(events[-1].is_last for events in seen.values()) == until:
                        return

            with Relay(gateway) as wire:
                async with connect(url(wire), token=token, backoff_s=FAST) as client:
                    watch = client.watch()
                    reading = asyncio.ensure_future(read(watch, 10))
                    await client.conversations()  # so the watch was asked for before
                    for n in range(10):
                        task = await asker.conversation().ask(program(*[{"token": str(i)} for i in range(30)]))
                        if n % 3 == 0:
                            wire.cut()
                        await task.result()
                    await reading
                    with pytest.raises(HoldfastError):
                        client.watch()
                    cursor = watch.cursor
                    await watch.aclose()
            away = await asker.conversation().ask("away")
            await away.result()
            async with connect(url(gateway), token=token) as client:
                await read(client.watch(cursor), 11, is_new=False)
            assert "".join(event.data["text"] for event in seen[task.task_id] if event.name == "token") == "".join(
                str(i) for i in range(30))

    run(body())


def test_task_is_cancelled_over_the_socket(gateway):
    async def body():
        async with connect(url(gateway)) as client:
            task = await client.conversation().ask(program({"token": "begun"}, {"hang": 1}))
            async for event in task.events():
                if event.name == "token":
                    assert await task.cancel() == 1
            assert event.name == "task.failed" and event.data["status"] == "cancelled"
            with pytest.raises(TaskFailed) as failed:
                await task.result()
            assert failed.value.status == "cancelled" and failed.value.output == "begun"

    run(body())


def test_gateway_that_is_killed_loses_nothing_that_was_seen():
    with Gateway(listen=f"127.0.0.1:{free_port()}") as server:

        async def body():
            async with connect(url(server), backoff_s=FAST) as client:
                gate = server.path()
                task = await client.conversation().ask(program({"flood": 100}, {"wait": gate}))
                seen = []
                async for event in task.events(exact=True):
                    seen.append(event)
                    if event.seq == 102:  # created, started, a hundred tokens
                        await asyncio.to_thread(server.kill)
                        await asyncio.to_thread(server.start)
                        await released(gate)
                assert_dense(seen)
                assert seen[-1].is_last
                assert await collected(task.events(exact=True)) == seen

        run(body())


def test_loop_that_is_slower_than_the_task_delays_nobody_and_misses_nothing(gateway):
    words = 5 * QUEUE

    async def body():
        async with connect(url(gateway)) as client:
            gate = gateway.path()
            task = await client.conversation().ask(program({"wait": gate}, {"flood": words}, {"final_answer": "x"}))
            fast_done = asyncio.Event()

            async def slow():
                seen = []
                async for event in task.events(exact=True):
                    seen.append(event)
                    if event.name == "task.started":
                        await released(gate)
                        await fast_done.wait()
                return seen

            async def fast():
                seen = await collected(task.events(exact=True))
                fast_done.set()
                return seen

            both = await asyncio.gather(slow(), fast())
            for seen in both:
                assert_dense(seen)
                assert len(seen) == words + 4
            assert both[0] == both[1]
            late = await collected(task.events(after=100))
            assert_dense(late, 100)
            assert text_of(late) == text_of(both[0][100:])
            assert await collected(task.events(after=words + 4)) == []

    run(body())


def test_question_is_answered_and_a_message_delivered(gateway):
    async def body():
        async with connect(url(gateway)) as client:
            task = await client.conversation().ask(
                program({"question": "i", "kind": "question", "prompt": "Which?"}, {"hear": "message"},
                        {"hear": "input"}, {"token": "done"}))
            names = []
            async for event in task.events():
                names.append(event.name)
                if event.name == "input_required":
                    await task.send("a message")
                    await task.respond(event.data["input_id"], "blue")
            assert "message" in names and "input_received" in names
            assert (await task.result()).output == "done"
            with pytest.raises(HoldfastError) as refused:
                await task.send("too late")
            assert refused.value.code == "task_terminated"

    run(body())


def test_transcripts_are_the_state_so_far_through_cuts_and_approvals(gateway):
    options = [{"id": "once", "name": "Once", "kind": "allow_once"}, {"id": "all", "name": "All", "kind": "allow_always"}]

    def asks(input_id):
        return {"line": {"event": "input_required", "data": {"input_id": input_id, "kind": "approval", "prompt": "May I?",
                                                             "options": options}}}

    async def body():
        with Relay(gateway) as relay:
            async with connect(url(relay), backoff_s=FAST) as client:
                task = await client.conversation().ask(program(
                    {"token": "so "}, asks("a"), {"hear": "input"}, asks("b"), {"hear": "input"}, asks("c"), {"hear": "input"},
                    {"token": "far"}))
                answer = {"a": task.allow, "b": lambda one: task.allow(one, always=True), "c": task.deny}
                async for so_far in task.transcripts():
                    for one in so_far.questions:
                        if one.is_open and one.input_id in answer:
                            await answer.pop(one.input_id)(one)
                            relay.cut()
                assert [one.answer for one in so_far.questions] == ["once", "all", False]
                assert (so_far.text, so_far.status, so_far.last) == ("so far", "completed", (await task.record())["head"])

    run(body())


def test_failure_has_a_sentence_and_the_machines_words(gateway):
    async def body():
        async with connect(url(gateway)) as client:
            with pytest.raises(TaskFailed) as failed:
                await client.conversation().ask(program({"token": "half"}, {"exit": 3})).result()
            assert (failed.value.sentence, failed.value.detail) == ("The assistant broke off.", "exit status 3")
            assert failed.value.output == "half" and failed.value.may_retry
            with pytest.raises(HoldfastError) as refused:
                await client.conversation().ask("x", agent="nobody")
            assert refused.value.sentence == "The gateway does not understand this." and not refused.value.may_retry
            assert (await client.conversation().ask(program({"token": "all"})).result()).output == "all"

    run(body())


def test_address_may_lack_its_path_and_a_wrong_one_is_told_at_once(gateway):
    async def body():
        for good in (f"ws://127.0.0.1:{gateway.port}", f"http://127.0.0.1:{gateway.port}/"):
            async with connect(good) as client:
                await client.live()
        for wrong in ("127.0.0.1:8080", "ftp://x", "ws://", "ws://host:port", ""):
            with pytest.raises(HoldfastError) as error:
                connect(wrong)
            assert error.value.code == "bad_url" and "ws://127.0.0.1:8080" in str(error.value)

    run(body())


def test_gateway_that_does_not_answer_is_told_once_until_it_does(gateway, caplog):
    async def body():
        with Relay(gateway) as relay, refusing_port() as nobody:
            there = relay.to
            async with connect(url(relay), backoff_s=FAST) as client:
                await client.live()
                for _ in range(2):
                    caplog.clear()
                    relay.to = ("127.0.0.1", nobody)
                    failures = client.connection._failures
                    relay.cut()
                    while client.connection._failures < failures + 5:
                        await asyncio.sleep(0.001)
                    assert [record.levelname for record in caplog.records] == ["WARNING"]
                    assert f"no connection to {url(relay)}: " in caplog.text and client.trouble
                    relay.to = there
                    await client.live()
                    assert client.trouble is None

    run(body())


def test_none_overtakes_one_that_waits_for_room():
    config = {"limits": {"tasks_per_owner": 1}}
    with Gateway(config) as server:

        async def body():
            async with connect(url(server)) as client:
                gate = server.path()
                conversation = client.conversation()
                first = await conversation.ask(program({"wait": gate}))
                others = [conversation.ask(program({"token": str(i)})) for i in range(3)]
                await released(gate)
                tasks = [await one for one in others]
                assert first.task_id < tasks[0].task_id < tasks[1].task_id < tasks[2].task_id
                assert [(await task.result()).output for task in tasks] == ["0", "1", "2"]

        run(body())


def test_foreign_task_is_not_found_and_changes_come_over_reconnects(gateway):
    async def body():
        with Relay(gateway) as relay:
            async with connect(url(relay), backoff_s=FAST) as ann, connect(url(gateway)) as bob:
                gate = gateway.path()
                conversation = ann.conversation("a")
                task = await conversation.ask(program({"wait": gate}, {"token": "x"}))
                with pytest.raises(HoldfastError) as refused:
                    await bob.task("a", task.task_id).record()
                assert refused.value.code == "not_found"
                snapshots = 0
                async for line in conversation.changes():
                    if line["type"] == "conversation":
                        snapshots += 1
                        if snapshots == 1:
                            relay.cut()
                        else:
                            await released(gate)
                    if line["type"] == "message" and line["message"]["role"] == "assistant":
                        break
                assert snapshots >= 2

    run(body())


def test_token_function_is_asked_again_and_a_bad_token_ends_it(tmp_path):
    with Gateway({"auth": tokens.config(tmp_path)}) as server:
        asked = []

        async def fresh(stale):
            asked.append(stale)
            return tokens.token("ann") if stale else tokens.token("ann", seconds=-120)

        async def body():
            async with connect(url(server), token=fresh, backoff_s=FAST) as client:
                await client.live()
                assert client.owner == "ann" and asked[0] is None and asked[1]
            bad = connect(url(server), token="not a token", backoff_s=FAST)
            with pytest.raises(HoldfastError) as ended:
                await bad.live()
            assert ended.value.code == "unauthorized" and bad.state == "closed"
            with pytest.raises(HoldfastError):
                await bad.conversations()
            await bad.close()

        begun = time.monotonic()
        run(body())
        assert time.monotonic() - begun < WAIT_S


READS = """import json, sys
run = json.loads(sys.stdin.readline())
said = [[part["name"], open(part["path"], "rb").read().decode()] for part in run["parts"] if part["type"] == "file"]
print(json.dumps({"event": "final_answer", "data": {"output": json.dumps([run["input"], said])}}))
"""


def test_files_are_given_read_and_named_by_messages(tmp_path):
    reads = {"name": "reads", "kind": "exec", "command": [sys.executable, "-c", READS], "kept": False,
             "after_restart": "fail"}

    async def talk(server):
        async with connect(url(server), backoff_s=FAST) as client:
            conversation = client.conversation("c-files")
            (tmp_path / "a b.txt").write_text("what is in it")
            part = await conversation.give(tmp_path / "a b.txt", media_type="text/plain")
            assert (part["type"], part["name"], part["media_type"], part["size"]) == ("file", "a b.txt", "text/plain", 13)
            assert await conversation.give(b"", name="ü/é.txt", key="k") == {
                **await conversation.give(b"", key="k"), "name": "é.txt"}  # the same try: the same file
            assert await conversation.read(part["file_id"]) == b"what is in it"
            await conversation.read(part["file_id"], to=tmp_path / "copy")
            assert (tmp_path / "copy").read_bytes() == b"what is in it"
            task = await conversation.ask([{"type": "text", "text": "look"}, part])
            assert (await task.result()).output == '["look", [["a b.txt", "what is in it"]]]'
            with pytest.raises(HoldfastError) as failed:
                await conversation.read("01ARZ3NDEKTSV4RRFFQ69G5FAV")
            assert failed.value.code == "not_found"
            with pytest.raises(HoldfastError) as failed:
                await conversation.give(b"x" * (3 << 20))
            assert failed.value.code == "too_large"

    with Gateway({"agents": [reads], "limits": {"file_mib": 2}}) as server:
        run(talk(server))


def begun(server):
    """Whether some of an upload is on disk; a part becomes a file at any moment."""
    try:
        return any(path.stat().st_size for path in (server.data / "files/part").rglob("*") if path.is_file())
    except FileNotFoundError:
        return True


def test_upload_goes_on_over_a_restart_of_the_gateway():
    async def talk(server):
        async with connect(url(server), backoff_s=FAST) as client:
            conversation = client.conversation("c-cut")
            body = os.urandom(8 << 20)
            given = asyncio.ensure_future(conversation.give(body, wait_s=0.01))
            while not given.done() and not begun(server):
                await asyncio.sleep(0)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            part = await given
            assert part["size"] == len(body)
            assert await conversation.read(part["file_id"]) == body

    with Gateway(listen=f"127.0.0.1:{free_port()}") as server:
        run(talk(server))


def test_shares_search_and_flags():
    with Gateway() as server:

        async def body():
            async with connect(url(server)) as client:
                one = client.conversation("one")
                await (await one.ask("a needle in here")).result()
                made = await one.share(rights=["read"], actor="bob")
                assert await client.shares("one") == await client.shares() == [made["share"]]
                async with connect(url(server), token=made["token"]) as bob:
                    await bob.live()
                    assert bob.welcome["rights"]["actor"] == "bob"
                    with pytest.raises(HoldfastError) as refused:
                        await bob.conversation("one").pin()
                    assert refused.value.code == "not_found"
                found = await client.search("NEEDLE")
                assert found["messages"][-1]["matches"] == [[2, 6]] and found["conversations"][0]["title"] == "a needle in here"
                await one.pin()
                await one.archive()
                (listed,) = await client.conversations()
                assert listed["pinned"] and listed["archived"]
                await client.unshare(made["share"]["share_id"])
                assert await client.shares() == []
                assert len((await client.handover())["code"]) == 24

        run(body())


def test_list_is_kept_up_to_date_over_cuts(gateway):
    async def body():
        with Relay(gateway) as relay:
            async with connect(url(relay), backoff_s=FAST) as client, contextlib.aclosing(client.listed.changes()) as changes:
                async def until(titles):
                    async for rows in changes:
                        assert rows == client.listed.items
                        if [row["title"] for row in rows] == titles:
                            return rows

                await until([])
                one, two = client.conversation("one"), client.conversation("two")
                await one.ask("first").result()
                await until(["first"])
                await two.ask("second").result()
                await until(["second", "first"])
                relay.cut()
                await one.rename("renamed")
                rows = await until(["renamed", "second"])
                assert rows[0]["conversation_id"] == "one"
                async with contextlib.aclosing(client.listed.changes()) as others:  # a second loop begins with what is known
                    assert await others.__anext__() == client.listed.items
                await two.delete()
                await until(["renamed"])
        assert client.listed.has_older is False

    run(body())


def test_list_has_pages(gateway):
    async def body():
        async with connect(url(gateway)) as client:
            for n in range(60):
                await client.conversation().ask(f"q{n}")
            async with contextlib.aclosing(client.listed.changes()) as changes:
                async for rows in changes:
                    if len(rows) == 50:
                        assert client.listed.has_older and not await client.listed.older()
                    if len(rows) == 60:
                        break
            assert {row["title"] for row in rows} == {f"q{n}" for n in range(60)}

    run(body())


def test_certificates_are_the_context_s(tmp_path):
    key, cert = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    with Gateway({"tls": {"cert": cert, "key": key}}) as server:
        async def body():
            address = f"wss://localhost:{server.port}"
            async with connect(address, ssl=ssl.create_default_context(cafile=cert)) as client:
                part = await client.conversation("c").give(b"over TLS")
                assert await client.conversation("c").read(part["file_id"]) == b"over TLS"
                code = (await client.handover())["code"]
                assert await take_over(address, code, ssl=ssl.create_default_context(cafile=cert))
            async with connect(address) as client:
                while client.trouble is None:
                    await asyncio.sleep(0.001)
                assert "certificate" in client.trouble
            with pytest.raises(HoldfastError) as refused:
                connect("ws://localhost", ssl=ssl.create_default_context())
            assert refused.value.code == "bad_url"

        run(body())


def test_another_device_takes_over(gateway, tmp_path):
    async def body():
        store = str(tmp_path / "store")
        async with connect(url(gateway)) as client:
            await client.conversation("c").ask("here").result()
            code = (await client.handover())["code"]
            token = await take_over(f"http://127.0.0.1:{gateway.port}", code, store=store)
            async with connect(url(gateway), store=store) as there, connect(url(gateway), token=token) as too:
                await there.live()
                await too.live()
                assert there.owner == too.owner == client.owner
                assert [row["title"] for row in await there.conversations()] == ["here"]
            with pytest.raises(HoldfastError) as gone:
                await take_over(url(gateway), code)
            assert gone.value.code == "not_found"
        with refusing_port() as port, pytest.raises(HoldfastError) as lost:
            await take_over(f"ws://127.0.0.1:{port}", "x")
        assert lost.value.code == "connection_lost"

    run(body())


def test_progress_of_an_upload_is_told(gateway):
    async def body():
        told = []
        async with connect(url(gateway)) as client:
            await client.conversation("c").give(b"x" * 300_000, on_progress=lambda *both: told.append(both))
        assert told[-1] == (300_000, 300_000) and told == sorted(told) and len(told) > 2

    run(body())


def test_proofs_of_an_export_are_checked():
    with Gateway({"store": {"chain": True}}) as server:
        async def body():
            async with connect(url(server)) as client:
                task = await client.conversation("c").ask(program({"token": "a"}, {"token": "b"}))
                await task.result()
                link = http.client.HTTPConnection("127.0.0.1", server.port)
                link.request("GET", "/v1/conversations/c/export", headers={"Authorization": f"Bearer {client.welcome['token']}"})
                return task.task_id, link.getresponse().read().splitlines(keepends=True)

        task_id, lines = asyncio.run(body())
    (proof,) = verify(lines)
    assert (proof.task_id, proof.state, proof.events) == (task_id, "proved", sum(b'"type":"event"' in one for one in lines))
    assert verify([one.replace(b'"text":"b"', b'"text":"c"') for one in lines])[0].state == "broken"
    missing = [one for one in lines if b'"text":"a"' not in one]
    assert (verify(missing)[0].state, verify(missing)[0].broken_at) == ("broken", 3)
    assert verify([one for one in lines if b"task.completed" not in one])[0].state == "none"


def test_numbers_of_a_lost_history_are_not_gone_on_from():
    async def body():
        gateway = LostHistory()
        async with listening(gateway) as port:
            async with connect(f"ws://127.0.0.1:{port}/v1/ws", backoff_s=FAST) as client:
                events = await collected(client.task("c", "t").events())
        assert [event.name for event in events] == ["task.created", "token", "reset", "task.created", "token",
                                                    "task.completed"]
        assert [after for after, _ in gateway.asked] == [0, 2, 0] and gateway.asked[1] == (2, 5)

    run(body())
