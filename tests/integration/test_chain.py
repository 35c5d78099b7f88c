"""The continuity proof: store.chain, the member `chain` of a task's end, and `holdfast verify`."""

import hashlib
import json
import subprocess

import pytest

from gateway import BINARY, DEFAULTS, Gateway, script_agent, wait_until
from holdfast import Client, new_id
from test_retention import removed

PROVES = {"agents": [script_agent(default=True, after_restart="fail"), script_agent("goes on")], "store": {"chain": True}}


def chain_of(lines):
    proof = bytes(32)
    for line in lines:
        proof = hashlib.sha256(proof + line).digest()
    return proof.hex()


def exported(gateway, client, conversation):
    head = {"Authorization": f"Bearer {client.token}"}
    status, _, body = gateway.http("GET", f"/v1/conversations/{conversation}/export", headers=head)
    assert status == 200
    return body


def proof_and_lines(gateway, client, task):
    """The proof in its end, and the bytes of all lines before it."""
    lines = [line for line in exported(gateway, client, task["conversation_id"]).splitlines()
             if json.loads(line)["type"] == "event" and json.loads(line)["task_id"] == task["task_id"]]
    return json.loads(lines[-1])["data"].get("chain"), lines[:-1]


def verify(body):
    done = subprocess.run([BINARY, "verify", "-"], input=body, capture_output=True, check=False, timeout=60)
    return done.returncode, done.stdout.decode()


@pytest.fixture(scope="module")
def proving():
    with Gateway(PROVES) as started:
        yield started


@pytest.mark.parametrize("steps", [
    [{"token": "a"}], [{"token": "a"}, {"exit": 1}], [{"token": "x" * 30_000}, {"token": "ä\U0001f600\\\"" * 2_000}],
])
def test_end_proves_all_lines_before_it(proving, steps):
    with Client(proving) as client:
        task, _ = client.finish(*steps, conversation=new_id())
        proof, lines = proof_and_lines(proving, client, task)
        assert proof == chain_of(lines) and len(lines) == task["head"] - 1


def test_proof_over_many_blocks(proving):
    with Client(proving) as client:
        task, _ = client.finish({"repeat": 3000, "steps": [{"token": "some words more of it "}]}, conversation=new_id())
        proof, lines = proof_and_lines(proving, client, task)
        assert proof == chain_of(lines)


def test_cancelled_and_silent_tasks_have_one(proving):
    with Client(proving) as client:
        conversation = new_id()
        hangs = client.chat({"token": "a"}, {"hang": True}, conversation=conversation)
        client.event(hangs, "token")
        client.call("cancel_all", conversation_id=conversation)
        client.wait_terminal(hangs)
        proof, lines = proof_and_lines(proving, client, hangs)
        assert proof == chain_of(lines)


def test_proof_goes_on_over_kills(tmp_path):
    gate = tmp_path / "gate"
    with Gateway(PROVES, lasting=True) as gateway:
        with Client(gateway) as client:
            orphan = client.chat({"token": "a"}, {"hang": True}, conversation=new_id())
            client.event(orphan, "token")
            kept = client.chat({"token": "b"}, {"wait": str(gate)}, {"token": "c"}, conversation=new_id(), agent="goes on")
            client.event(kept, "token")
            token = client.token
        gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            since = len(client.log)
            client.resume(kept)
            gate.touch()
            client.wait_terminal(kept, since)
            for task in (orphan, kept):
                proof, lines = proof_and_lines(gateway, client, task)
                assert proof == chain_of(lines)
            assert client.task(kept)["status"] == "completed" and client.task(orphan)["error"]["code"] == "orphaned"


def test_verify_tells_what_is_wrong(proving):
    with Client(proving) as client:
        conversation = new_id()
        client.finish({"token": "one"}, {"token": "two"}, conversation=conversation)
        second, _ = client.finish("else", conversation=conversation)
        body = exported(proving, client, conversation)
        code, said = verify(body)
        assert code == 0 and said.endswith("2 proved, 0 broken, 0 without a proof\n"), said
        lines = body.splitlines(keepends=True)
        at = next(at for at, line in enumerate(lines) if b'"text":"two"' in line)
        changed = lines[:at] + [lines[at].replace(b"two", b"too")] + lines[at + 1:]
        for wrong in (changed, lines[:at] + lines[at + 1:], lines[:at] + [lines[at]] + lines[at:]):
            code, said = verify(b"".join(wrong))
            assert code == 1 and "BROKEN" in said and "1 proved, 1 broken" in said, said
        begun = lines.index(next(line for line in lines if second["task_id"].encode() in line and b'"seq":1,' in line))
        code, said = verify(b"".join(lines[:begun] + lines[begun + 1:]))
        assert code == 0 and "its first events were removed" in said, said
        cut = [line for line in lines if b'"event":"task.completed"' not in line]
        assert verify(b"".join(cut))[0] == 1


def test_retention_leaves_whole_proofs_or_nothing():
    """It takes a task's events all together, in any mixture of lengths, also when a kill comes between."""
    config = {**PROVES, "limits": {**DEFAULTS["limits"], "store_mib_per_owner": 1}}
    with Gateway(config) as gateway:
        with Client(gateway) as client:
            conversation, token = new_id(), client.token
            for n in (900, 50, 700, 300, 20, 400):
                client.finish({"flood": n, "bytes": 400}, {"final_answer": "b"}, conversation=conversation)
            wait_until(lambda: removed(gateway, "events") >= 1, "the removal")
            gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            body = exported(gateway, client, conversation)
            tasks = [line["task"] for line in map(json.loads, body.splitlines()) if line["type"] == "task"]
            events = [line for line in map(json.loads, body.splitlines()) if line["type"] == "event"]
            seqs = {task["task_id"]: [line["seq"] for line in events if line["task_id"] == task["task_id"]] for task in tasks}
            assert all(seqs[task["task_id"]] in ([], list(range(1, task["head"] + 1))) for task in tasks)
            kept = sum(1 for has in seqs.values() if has)
            assert len(tasks) == 6 and 0 < kept < 6
            code, said = verify(body)
            assert code == 0 and said.endswith(f"{kept} proved, 0 broken, 0 without a proof\n"), said


def test_without_the_key_there_is_none(gateway, client):
    task, _ = client.finish("one", conversation=new_id())
    assert proof_and_lines(gateway, client, task)[0] is None
    code, said = verify(exported(gateway, client, task["conversation_id"]))
    assert code == 1 and "0 proved, 0 broken, 1 without a proof" in said
    assert subprocess.run([BINARY, "verify"], capture_output=True, check=False, timeout=60).returncode == 2
    missing = subprocess.run([BINARY, "verify", "/no/such/file"], capture_output=True, check=False, timeout=60)
    assert missing.returncode == 1 and b"/no/such/file" in missing.stderr
