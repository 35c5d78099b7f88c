"""A configuration that has changed between two starts: what goes on, what ends as orphaned, and that no program is left."""

import random

from continuing import FormTask, Task, begun, clean, lasting, lasting_form
from gateway import Gateway
from holdfast import Client

CHANGED = "command, env or cwd has changed"
# By agent: how it is configured after the restart, None when it is gone; and why its task does not go on.
CHANGES = {
    "same": ({}, None),
    "asked": ({"idle_timeout_s": 500, "grace_s": 2}, None),
    "gone": (None, "no longer configured"),
    "renamed": ({"command": ["/bin/cat"]}, CHANGED),
    "elsewhere": ({"cwd": "/tmp"}, CHANGED),
    "reads-otherwise": ({"form": "text", "tools": []}, CHANGED),
    "not-kept": ({"kept": False}, "restarted while the task ran"),
    "fails": ({"after_restart": "fail"}, "restarted while the task ran"),
}


def test_a_changed_configuration_ends_what_it_must(tmp_path):
    rng = random.Random(1)
    agents = [lasting(name, default=name == "same") for name in CHANGES] + [lasting_form("claude", tmp_path)]
    with Gateway({"agents": agents}, lasting=True) as gateway:
        with Client(gateway) as client:
            token = client.token
            tasks = {name: Task(gateway, rng, name) for name in CHANGES}
            for name, task in tasks.items():
                task.start(client, agent=name)
            other = FormTask(gateway, rng, "other").start(client, "claude")
        begun([*tasks.values(), other])
        gateway.kill()
        gateway.config["agents"] = [{**agent, **CHANGES[agent["name"]][0]} for agent in agents[:-1]
                                    if CHANGES[agent["name"]][0] is not None]
        gateway.config["agents"].append(lasting_form("codex", tmp_path, "claude", command=agents[-1]["command"]))
        gateway.start()
        with Client(gateway, token=token) as client:
            for name, task in tasks.items():
                why = CHANGES[name][1]
                if not why:
                    task.send(client, "end")
                since = len(client.log)
                client.resume(task.task, 0)
                record = task.check(client, list(client.events(task.task, since)))
                assert record["status"] == ("failed" if why else "completed"), (name, record)
                assert not why or (record["error"]["code"] == "orphaned" and why in record["error"]["message"]), record
            record = client.task(other.task)  # ended before the port was open
            assert record["error"]["code"] == "orphaned" and CHANGED in record["error"]["message"], record
        clean(gateway)
