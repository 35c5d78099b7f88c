"""Tenants (auth.tenant_claim): a prefix of the owner, out of each other's reach; in metrics, for operators, in `holdfast token`."""

import json

import pytest

import exposition
import tokens
from gateway import Gateway, run, script_agent
from holdfast import Client, ids
from test_admin import Admin


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    auth = tokens.config(tmp_path_factory.mktemp("keys"), tenant_claim="org")
    with Gateway({"auth": auth, "guests": True, "agents": [script_agent("script", default=True)]}) as running:
        yield running


def client(gateway, sub, org):
    return Client(gateway, token=tokens.token(sub, org=org))


def test_owner_is_tenant_and_sub(gateway):
    with client(gateway, "alice", "acme") as ours, client(gateway, "alice", "beta") as theirs:
        assert (ours.welcome["owner"], theirs.welcome["owner"]) == ("acme/alice", "beta/alice")
        task, _ = ours.finish({"token": "x"})
        theirs.refused("not_found", "resume", **ids(task))
        assert theirs.call("conversations")["conversations"] == []
    with client(gateway, "a/b", "acme") as slash:  # a sub may have one, a tenant may not: no two pairs are one owner
        assert slash.welcome["owner"] == "acme/a/b"


@pytest.mark.parametrize("claims", [
    {}, {"org": ""}, {"org": 7}, {"org": ["acme"]}, {"org": None}, {"org": "acme/x"}, {"org": "a\n"}, {"org": "x" * 65},
    {"org": "guest-x"}])
def test_token_without_a_tenant_is_a_bad_one(gateway, claims):
    with Client(gateway, hello=False) as refused:
        error = refused.refused("unauthorized", "hello", token=tokens.token("alice", **claims))
        assert error["message"] == "the token is not valid"


def test_guests_have_no_tenant(gateway):
    with Client(gateway) as guest:
        assert guest.welcome["owner"].startswith("guest-")


def test_command_makes_tokens_of_a_tenant(gateway):
    def token(sub):
        return run("token", "--sub", sub, "--config", str(gateway.folder / "config.json"))
    made = token("acme/bob")
    claims = tokens.claims_of(made.stdout.strip())
    assert (claims["org"], claims["sub"]) == ("acme", "bob")
    with Client(gateway, token=made.stdout.strip()) as bob:
        assert bob.welcome["owner"] == "acme/bob"
    for wrong in ("bob", "/bob", "acme/"):
        assert "TENANT/NAME" in token(wrong).stderr


def test_metrics_and_operators_see_tenants(gateway):
    gate = gateway.path()
    with client(gateway, "ann", 'a"c\\me') as ann, client(gateway, "bob", "beta"), client(gateway, "eve", "beta"):
        task = ann.chat(json.dumps([{"wait": gate}]))
        ann.event(task, "task.started")
        families = exposition.read(gateway.http("GET", "/metrics")[2].decode())

        def counted(name):
            return {labels["tenant"]: value for _, labels, value in families[name].samples}
        connections, tasks = counted("holdfast_tenant_connections"), counted("holdfast_tenant_tasks")
        assert connections["beta"] >= 2 and connections['a\\"c\\\\me'] >= 1
        assert (tasks["beta"], tasks['a\\"c\\\\me']) == (0, 1)
        state = Admin(gateway).good("GET", "/v1/admin/state")
        rows = {row["tenant"]: row for row in state["tenants"]}
        assert rows["beta"]["connections"] >= 2 and rows['a"c\\me']["tasks"] == 1
        with open(gate, "w", encoding="utf-8"):
            pass
        ann.wait_terminal(task)
