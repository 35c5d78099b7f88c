"""GET /metrics: every family of PROTOCOL.md section 7, in the text format, moved by what it counts."""

import re

from holdfast import new_id

FAMILIES = {
    "holdfast_connections": "gauge",
    "holdfast_closes_total": "counter",
    "holdfast_tasks": "gauge",
    "holdfast_events_total": "counter",
    "holdfast_store_commit_seconds": "histogram",
    "holdfast_store_commit_failures_total": "counter",
    "holdfast_resume_total": "counter",
    "holdfast_resume_caught_up_seconds": "histogram",
    "holdfast_cancel_seconds": "histogram",
    "holdfast_limit_hits_total": "counter",
}
LINE = re.compile(r'([a-z_]+)(\{(?:[a-z_]+="[^"\\\n]*",?)+\})? ([0-9.e+-]+)$')


def scrape(gateway):
    status, _, body = gateway.http("GET", "/metrics")
    assert status == 200
    values = {}
    for line in body.decode().splitlines():
        if not line.startswith("#"):
            name, labels, value = LINE.match(line).groups()
            values[name + (labels or "")] = float(value)
    return body.decode(), values


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
            "holdfast_resume_caught_up_seconds_count"} <= grown
