"""GET /metrics: every family of PROTOCOL.md section 7, in the text format, moved by what it counts."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

import exposition
from gateway import Gateway, script_agent
from holdfast import new_id

FAMILIES = {
    "holdfast_connections": "gauge",
    "holdfast_trace_spans_total": "counter",
    "holdfast_closes_total": "counter",
    "holdfast_tasks": "gauge",
    "holdfast_events_total": "counter",
    "holdfast_store_commit_seconds": "histogram",
    "holdfast_store_commit_failures_total": "counter",
    "holdfast_uncommitted_bytes": "gauge",
    "holdfast_store_queries": "gauge",
    "holdfast_store_wal_bytes": "gauge",
    "holdfast_store_checkpoint_failures_total": "counter",
    "holdfast_store_damages_total": "counter",
    "holdfast_replayed_bytes_total": "counter",
    "holdfast_resume_total": "counter",
    "holdfast_resume_caught_up_seconds": "histogram",
    "holdfast_cancel_seconds": "histogram",
    "holdfast_limit_hits_total": "counter",
    "holdfast_requests_total": "counter",
    "holdfast_request_errors_total": "counter",
    "holdfast_refusals_total": "counter",
    "holdfast_audit_lines_total": "counter",
    "holdfast_auth_key_fetches_total": "counter",
    "holdfast_auth_keys_age_seconds": "gauge",
}
# With an agent that has a model, so that no family is left out.
CONFIG = {"agents": [script_agent("script", default=True), {"name": "model", "kind": "react"}]}
LINE = re.compile(r'([a-z_]+)(\{(?:[a-z_]+="[^"\\\n]*",?)+\})? ([0-9.e+-]+)$')


def scrape_text(gateway):
    status, _, body = gateway.http("GET", "/metrics")
    assert status == 200
    return body.decode()


def scrape(gateway):
    text, values = scrape_text(gateway), {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels, value = LINE.match(line).groups()
            values[name + (labels or "")] = float(value)
    return text, values


def test_every_family_is_there_with_its_type(gateway, client):
    text, values = scrape(gateway)
    for family, kind in FAMILIES.items():
        assert f"# TYPE {family} {kind}\n" in text
        assert f"# HELP {family} " in text
        assert any(name.startswith(family) for name in values), family


def test_histograms_are_cumulative_and_end_in_their_count(gateway, client):
    client.finish({"token": "x"})
    _, values = scrape(gateway)
    for family in (name for name, kind in FAMILIES.items() if kind == "histogram"):
        buckets = [value for name, value in values.items() if name.startswith(family + "_bucket")]
        assert buckets == sorted(buckets)
        assert buckets[-1] == values[family + "_count"]


def test_what_happens_is_counted(gateway, client):
    _, before = scrape(gateway)
    done, _ = client.finish({"token": "x"})
    client.replay(done)
    client.refused("not_found", "resume", task_id=done["task_id"], conversation_id=new_id())
    _, after = scrape(gateway)
    grown = {name for name in after if after[name] > before.get(name, 0)}
    assert {"holdfast_events_total", "holdfast_store_commit_seconds_count",
            'holdfast_resume_total{outcome="exact"}', 'holdfast_resume_total{outcome="refused"}',
            "holdfast_resume_caught_up_seconds_count", "holdfast_replayed_bytes_total"} <= grown
    assert after["holdfast_store_wal_bytes"] > 0
    assert after["holdfast_store_queries"] == after["holdfast_store_checkpoint_failures_total"] == 0


# ---------------------------------------------------------------- the format, and who draws it

DASHBOARD = pathlib.Path(__file__).resolve().parent.parent.parent / "packaging/grafana-dashboard.json"


def test_text_is_what_prometheus_reads(gateway, client):
    client.finish({"token": "x"})
    families = exposition.read(scrape(gateway)[0])
    assert {name: family.kind for name, family in families.items()}.items() >= FAMILIES.items()


def test_name_of_an_agent_cannot_break_the_text():
    name = 'we"ird\\ {näme}'
    with Gateway({"agents": [script_agent(name, default=True)]}) as gateway:
        samples = exposition.read(scrape_text(gateway))["holdfast_tasks"].samples
    assert {labels["agent"] for _, labels, _ in samples} == {'we\\"ird\\\\ {näme}'}


def test_tasks_have_a_row_for_each_agent_of_many():
    names = [f"agent-{i}" for i in range(70)]
    with Gateway({"agents": [script_agent(name) for name in names]}) as gateway:
        samples = exposition.read(scrape_text(gateway))["holdfast_tasks"].samples
    assert [labels["agent"] for _, labels, _ in samples] == [name for name in names for _ in ("pending", "running")]


@pytest.mark.parametrize("text", [
    "# HELP a_total A.\n# TYPE a_total counter\na_total 1", "# HELP a A.\n# TYPE a counter\na 1\n",
    "# HELP a A.\n# TYPE a gauge\na 1\na 2\n", "# HELP a A.\n# TYPE a gauge\na{b=\"1\",b=\"2\"} 1\n",
    "# HELP a A.\n# TYPE a gauge\nb 1\n", "a 1\n", "# HELP a A.\n# TYPE a gauge\na one\n",
    "# HELP a_ms A.\n# TYPE a_ms gauge\na_ms 1\n", "# HELP a A.\n# TYPE a gauge\na{b=\"\\x\"} 1\n",
    "# HELP a A.\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\n"])
def test_the_reader_is_strict(text):
    with pytest.raises(AssertionError):
        exposition.read(text)


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool (./dev test fetches it)")
def test_promtool_finds_no_fault(gateway, client):
    done = subprocess.run(["promtool", "check", "metrics"], input=scrape(gateway)[0], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def expressions(panel):
    return [target["expr"] for target in panel["targets"]]


def test_dashboard_draws_what_is_exported(gateway, client):
    client.finish({"token": "x"})
    families = exposition.read(scrape(gateway)[0])
    names, labels = set(families), {}
    for family in families.values():
        for sample, pairs, _ in family.samples:
            names.add(sample)
            labels.setdefault(sample, set()).update(pairs)
    board = json.loads(DASHBOARD.read_text())
    drawn = set()
    for panel in board["panels"]:
        assert panel["title"] and expressions(panel)
        for expression in expressions(panel):
            found = re.findall(r"holdfast_\w+", expression)
            assert len(found) == 1 and set(found) <= names, expression
            drawn |= set(found)
            for by in re.findall(r"by \(([\w, ]+)\)", expression):
                assert set(by.split(", ")) <= labels[found[0]], expression
            assert ("rate(" in expression) == (found[0].endswith(("_total", "_bucket"))), expression
    assert {name.removesuffix("_bucket") for name in drawn} == set(families), "a family that is not drawn"
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    assert "holdfast_connections" in json.dumps(board["templating"])


# ---------------------------------------------------------------- alerts

ALERTS = DASHBOARD.with_name("alerts.yml")


def test_alerts_are_about_what_is_exported(gateway, client):
    client.finish({"token": "x"})
    labels = {}
    for family in exposition.read(scrape(gateway)[0]).values():
        for sample, pairs, _ in family.samples:
            labels.setdefault(sample, {"instance"}).update(pairs)
    groups = {group["name"]: group["rules"] for group in yaml.safe_load(ALERTS.read_text())["groups"]}
    assert groups.keys() == {"holdfast", "litestream"}  # the other's are in test_litestream.py
    rules = groups["holdfast"]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 10
    for rule in rules:
        names = set(re.findall(r"holdfast_\w+", rule["expr"]))
        assert names <= set(labels) and (names or rule["alert"] == "HoldfastDown"), rule["expr"]
        known = set().union(*(labels[name] for name in names), {"instance"})
        used = re.findall(r"(\w+)=", rule["expr"]) + re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
        assert set(used) <= known | {"job"}, rule["alert"]
        for by in re.findall(r"by \(([\w, ]+)\)", rule["expr"]):
            assert set(by.split(", ")) <= known, rule["expr"]


def test_each_alert_is_seen_to_fire():
    tests = yaml.safe_load((ALERTS.parent.parent / "tests/packaging/alerts_test.yml").read_text())["tests"]
    fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert fired == {rule["alert"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]}


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool (./dev test fetches it)")
def test_promtool_sees_alerts_fire_and_stay_silent():
    for words in (["check", "rules", str(ALERTS)],
                  ["test", "rules", str(ALERTS.parent.parent / "tests/packaging/alerts_test.yml")]):
        done = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


# ---------------------------------------------------------------- the log's events

ROOT = DASHBOARD.parent.parent
CALL = re.compile(r'log_event(?:_limited)?\([^,;]*,\s*"(\w+)",\s*([^,]*?)(?:,|\))', re.S)
ENTRY = re.compile(r'\{LEVEL_\w+, "(\w+)", ("\w+")')
NAMED = re.compile(r'^#define \w+ ("\w+")$', re.M)  # events of a file that logs what its functions hand on: `event`


def logged_in(text):
    for component, events in CALL.findall(text) + ENTRY.findall(text):
        for event in re.findall(r'"(\w+)"', " ".join(NAMED.findall(text)) if events == "event" else events):
            yield component, event


def test_reasons_of_refused_tokens_are_told_as_the_manual_has_them():
    said = "".join((ROOT / f"gateway/auth/{name}").read_text() for name in ("auth.c", "auth.h", "jwt.c"))
    table = (ROOT / "docs/operations.md").read_text().split("| `why` | then |")[1].split("\n\n")[0]
    reasons = [why for row in re.findall(r"^\| (`.*?`) \| ", table, re.M) for why in re.findall("`(.*?)`", row)]
    assert len(reasons) > 10 and [why for why in reasons if f'"{why}"' not in said] == []


def test_events_of_the_log_are_those_of_the_manual():
    said = {both for path in (ROOT / "gateway").rglob("*.c") if path.name != "fault.c"
            for both in logged_in(path.read_text())}
    manual = (ROOT / "docs/operations.md").read_text().split("| component | event |")[1].split("\n\n")[0]
    told = {(component, event) for component, events in re.findall(r"^\| `(\w+)` \| (.*) \|$", manual, re.M)
            for event in re.findall(r"`(\w+)`", events)}
    assert len(said) > 40 and told == said
