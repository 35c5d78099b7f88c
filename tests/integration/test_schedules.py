"""Messages that are scheduled, over real sockets: due by the wall clock, once, over a kill -9, with the system's time zones."""
import datetime
import json
import time
import zoneinfo

import pytest

from gateway import Gateway, wait_until
from holdfast import Client

LATER = 366 * 86_400_000


@pytest.fixture(scope="module")
def gateway():
    with Gateway() as started:
        yield started


def ms():
    return int(time.time() * 1000)


def schedules(client, **more):
    return client.call("schedules", **more)["schedules"]


def tasks_of(client, conversation):
    return client.call("tasks", conversation_id=conversation)["tasks"]


def test_message_is_sent_at_its_time_by_a_schedule_that_is_gone_then(gateway):
    with Client(gateway) as client:
        due = ms() + 500
        made = client.call("schedule", conversation_id="at", not_before=due, chat={"message": json.dumps({"token": "x"})})
        assert made["type"] == "scheduled" and made["schedule"]["next_at"] == due
        wait_until(lambda: not schedules(client), "it is sent")
        (task,) = tasks_of(client, "at")
        assert task["created_at"] >= due
        record = client.call("task", conversation_id="at", task_id=task["task_id"])["task"]
        assert record["metadata"]["schedule_id"] == made["schedule"]["schedule_id"]


def test_message_whose_time_comes_without_a_gateway_is_sent_once(gateway):
    with Client(gateway) as client:
        token = client.token
        client.call("schedule", conversation_id="kill", not_before=ms() + 300, chat={"message": json.dumps({"token": "x"})})
        client.call("schedule", conversation_id="left", not_before=ms() + LATER, chat={"message": "x"})
    gateway.kill()
    time.sleep(0.4)  # the time that it must not depend on a gateway
    gateway.start()
    with Client(gateway, token=token) as client:
        wait_until(lambda: len(schedules(client)) == 1, "it is sent")
        assert len(tasks_of(client, "kill")) == 1
    gateway.kill()
    gateway.start()
    with Client(gateway, token=token) as client:
        assert len(tasks_of(client, "kill")) == 1
        assert [s["conversation_id"] for s in schedules(client)] == ["left"]
        client.call("delete", conversation_id="left")
        assert schedules(client) == []


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
def test_next_time_by_cron_is_that_of_the_zone(gateway, zone):
    with Client(gateway) as client:
        made = client.call("schedule", chat={"message": "x"}, cron="30 9 * * mon-fri", time_zone=zone)["schedule"]
        local = datetime.datetime.fromtimestamp(made["next_at"] / 1000, zoneinfo.ZoneInfo(zone))
        assert (local.hour, local.minute, local.second) == (9, 30, 0) and local.weekday() < 5
        assert 0 < made["next_at"] - ms() <= 4 * 86_400_000
        client.call("unschedule", schedule_id=made["schedule_id"])


def test_schedules_over_http_are_those_of_the_socket(gateway):
    with Client(gateway) as client:
        head = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"}
        body = json.dumps({"chat": {"message": "x"}, "every_s": 3600})
        status, _, answer = gateway.http("POST", "/v1/conversations/http/schedules", body, head)
        assert status == 201
        made = json.loads(answer)["schedule"]
        assert made["conversation_id"] == "http" and schedules(client) == [made]
        assert json.loads(gateway.http("GET", "/v1/schedules?limit=1", None, head)[2])["schedules"] == [made]
        body = json.dumps({"schedule_id": made["schedule_id"], "cron": "@daily"})
        status, _, answer = gateway.http("PATCH", "/v1/schedules", body, head)
        assert status == 200
        assert "every_s" not in json.loads(answer)["schedule"]
        for expected in (200, 404):
            assert gateway.http("DELETE", f"/v1/schedules?schedule_id={made['schedule_id']}", None, head)[0] == expected
        assert gateway.http("POST", "/v1/schedules", "{}", head)[0] == 400


def test_schedules_of_all_and_of_one_owner_are_bounded():
    with Gateway({"limits": {"schedules": 3, "schedules_per_owner": 2}}) as gateway, Client(gateway) as client:
        fields = {"chat": {"message": "x"}, "every_s": 60}
        for _ in range(2):
            client.call("schedule", **fields)
        client.refused("overloaded", "schedule", **fields)
        with Client(gateway) as other:
            other.call("schedule", **fields)
            other.refused("overloaded", "schedule", **fields)
        shown = gateway.http("GET", "/metrics")[2]
        shown = shown.decode() if isinstance(shown, bytes) else shown
        assert "holdfast_schedules 3" in shown
        assert 'holdfast_limit_hits_total{limit="schedules"} 2' in shown
    with Gateway({"limits": {"schedules_per_owner": 0}}) as gateway, Client(gateway) as client:
        client.refused("unsupported", "schedule", chat={"message": "x"}, every_s=60)
