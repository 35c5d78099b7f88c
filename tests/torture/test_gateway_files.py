"""A file is swept between two reads of its bytes (PROTOCOL.md 7): each read is held, by a gate, while the conversation goes."""

import contextlib
import http.client
import os

import pytest

from files import Owner, blobs
from gateway import WAIT_S, Gateway, wait_until
from holdfast import new_id
from test_gateway_removals import Gate

SIZE = 400_000  # more than one piece


@pytest.fixture(params=[1, 2])
def gated(request):
    """That read of a file is the first that is held, and all later ones."""
    gateway = Gateway()
    gateway.gate = Gate(gateway.path())
    gateway.environ = {"HOLDFAST_FAULT": f"file:{request.param}+", "HOLDFAST_FAULT_GATE": str(gateway.gate.path)}
    gateway.passing = request.param
    with gateway:
        yield gateway


def struck(gateway):
    return [line for line in gateway.log if "event=struck" in line and "point=file" in line]


def begin(gateway, owner, path):
    """A GET whose read is held; its connection."""
    gateway.gate.shut()
    link = http.client.HTTPConnection(gateway.host, gateway.port, timeout=WAIT_S)
    link.request("GET", f"/v1/conversations/{path}", headers={"Authorization": f"Bearer {owner.token}"})
    wait_until(lambda: struck(gateway), "a read that is held")
    return link


def outcome(link):
    """(status, body; None when it was cut)"""
    answer = link.getresponse()
    with contextlib.suppress(http.client.IncompleteRead, ConnectionError):
        return answer.status, answer.read()
    return answer.status, None


def test_torture_file_that_is_swept_while_it_is_read_is_gone_and_no_alarm(gated):
    owner, c = Owner(gated), new_id()
    file = owner.give(c, os.urandom(SIZE))
    link = begin(gated, owner, f"{c}/files/{file['file_id']}")
    assert owner.ask("DELETE", c)[0] == 200
    wait_until(lambda: blobs(gated) == [], "the sweep", 3 * WAIT_S)
    gated.gate.open()
    status, body = outcome(link)
    link.close()
    if gated.passing == 1:  # nothing was said yet
        assert (status, body) == (404, owner.ask("GET", f"{c}/files/{file['file_id']}")[2])
    else:
        assert (status, body) == (200, None)
    assert not [line for line in gated.log if "component=files" in line and "level=info" not in line]
    assert gated.stop() == 0


def test_torture_file_whose_bytes_alone_are_gone_is_damage(gated):
    owner, c = Owner(gated), new_id()
    file = owner.give(c, os.urandom(SIZE))
    link = begin(gated, owner, f"{c}/files/{file['file_id']}")
    next(path for path in (gated.data / "files/blob").rglob("*") if path.is_file()).unlink()
    gated.gate.open()
    status, body = outcome(link)
    link.close()
    assert (status, body is None) == ((500, False) if gated.passing == 1 else (200, True))
    wait_until(lambda: [line for line in gated.log if "event=damaged" in line], "the alarm")
