"""Fixtures of all Python tests: one gateway for each file, clients that are closed at the end."""

import contextlib

import pytest

import elsewhere
import postgres
from gateway import WRONG_NODE, Gateway
from holdfast import Client
from mcp_kit import Talk
from model_server import ModelServer


def pytest_collection_modifyitems(items):
    known = elsewhere.reasons() if WRONG_NODE else {}
    for item in items:
        why = elsewhere.why_not(item.nodeid, known)
        if why:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="module")
def gateway(request):
    """The file's gateway, with the changes that its CONFIG makes to the usual configuration."""
    with Gateway(getattr(request.module, "CONFIG", None)) as running:
        yield running


@pytest.fixture
def clients(gateway):
    """clients(…) is a Client of the file's gateway: a new guest, or another owner's with token=…"""
    made = []

    def make(**options):
        made.append(Client(gateway, **options))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(clients):
    """A new guest."""
    return clients()


@pytest.fixture(scope="module")
def model():
    """The server of a scripted model."""
    with contextlib.closing(ModelServer()) as running:
        yield running


@pytest.fixture(scope="module")
def server(model):
    """The same, where agents may be served too."""
    return model


@pytest.fixture(scope="module")
def postgresql():
    """The file's own server, where PostgreSQL is installed."""
    server = postgres.Postgres()
    server.start()
    with contextlib.closing(server):
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The file's own."""
    return tmp_path_factory.mktemp("file")


@pytest.fixture
def talk(client, model):
    """Tasks of a new guest and that model."""
    return Talk(client, model)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A test that fails shows what its gateway logged."""
    outcome = yield
    report = outcome.get_result()
    gateway = getattr(item, "funcargs", {}).get("gateway")
    if report.failed and gateway is not None:
        report.sections.append(("the gateway's log", gateway.tail()))
