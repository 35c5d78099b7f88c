"""Notices go where their task was started, once, whatever is looked at meanwhile (F21, F24, of tasks).

Background processes, of which the cases speak as well, do not exist yet: see test_rows.py.
"""

import os
import random

from gateway import SANITIZE, wait_until
from holdfast import LIVE, Client, new_id
from test_notice import notices

SEED = int(os.environ.get("HOLDFAST_SEED", random.randrange(2**32)))
ROUNDS = 4 if SANITIZE else 6


def test_looking_at_an_ended_task_takes_nothing_of_its_notice(client):  # F21
    conversation, gate = new_id(), client.gateway.path()
    busy = client.chat({"wait": gate}, conversation=conversation)  # so that the notice waits
    job, _ = client.finish({"token": "the output"}, conversation=conversation, background=True,
                           notify_on_complete=True, name="job")
    seen = []
    for _ in range(3):
        seen.append([client.task(job), client.replay(job),
                     client.call("results", conversation_id=conversation)["results"],
                     client.call("tasks", conversation_id=conversation)["tasks"]])
    assert seen[0][:3] == seen[1][:3] == seen[2][:3]
    assert client.call("ack", conversation_id=conversation, task_ids=[job["task_id"]])["acked"] == 1
    assert notices(client, conversation) == []
    open(gate, "w", encoding="utf-8").close()
    client.wait_terminal(busy)
    wait_until(lambda: [t["status"] in LIVE for t in notices(client, conversation)] == [False], "the turn's end")
    told = [m["content"] for m in client.call("history", conversation_id=conversation)["messages"]
            if m["role"] == "system"]
    assert len(told) == 1 and job["task_id"] in told[0] and "the output" in told[0]
    client.finish("another turn", conversation=conversation)
    assert len(notices(client, conversation)) == 1


def test_notices_of_two_owners_never_cross(gateway, clients):  # F24
    """The same conversation id of two owners, tasks that end in random order, and one who comes and goes."""
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    owners = [clients(), clients()]
    jobs = [[], []]
    for _ in range(ROUNDS):
        started = []
        for i, owner in enumerate(owners):
            for conversation in ("c", f"own-{i}"):
                gate = gateway.path()
                secret = f"echo-{rng.randrange(2**60):x}-of-{i}"
                job = owner.chat({"wait": gate}, {"token": secret}, conversation=conversation, background=True,
                                 notify_on_complete=True)
                started.append(gate)
                jobs[i].append((conversation, job["task_id"], secret))
        owners[0].drop()
        rng.shuffle(started)
        for gate in started:
            open(gate, "w", encoding="utf-8").close()
        owners[0] = clients(token=owners[0].token)
    for i, owner in enumerate(owners):
        for conversation in ("c", f"own-{i}"):
            mine = [job for job in jobs[i] if job[0] == conversation]

            def told(owner=owner, conversation=conversation):
                messages = owner.call("history", conversation_id=conversation, limit=200)["messages"]
                return [m["content"] for m in messages if m["role"] == "system"]

            wait_until(lambda: sum(text.count(job[2]) for text in told() for job in mine) == len(mine),
                       "a notice of each")
            text = "\n".join(told())
            for other_i, others in enumerate(jobs):
                for where, task_id, secret in others:
                    here = other_i == i and where == conversation
                    assert text.count(secret) == text.count(task_id) == (1 if here else 0)
            wait_until(lambda: all(t["status"] not in LIVE for t in notices(owner, conversation)), "the turns' end")


def test_a_notice_whose_conversation_is_gone_goes_nowhere_else(client):  # F24
    gates = [client.gateway.path() for _ in range(2)]
    gone, kept = new_id(), new_id()
    for conversation, gate in zip((gone, kept), gates):
        client.chat({"wait": gate}, {"token": f"said in {conversation}"}, conversation=conversation,
                    background=True, notify_on_complete=True)
    client.call("delete", conversation_id=gone)
    for gate in gates:
        open(gate, "w", encoding="utf-8").close()
    wait_until(lambda: notices(client, kept), "the turn")
    messages = client.call("history", conversation_id=kept)["messages"]
    assert gone not in str(messages) and f"said in {kept}" in str(messages)
    assert notices(client, gone) == []
    with Client(client.gateway, token=client.token) as again:
        assert gone not in [c["conversation_id"] for c in again.call("conversations")["conversations"]]
