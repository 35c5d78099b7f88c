"""A strict reader of Prometheus's text format (0.0.4): checks what promtool check metrics checks, and more.

Prometheus itself is a package of 96 MB, too large to install for one command; this is the part that is needed here.
"""

import math
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL},)*{LABEL})?\}})? (\S+)")
KINDS = {"counter", "gauge", "histogram", "summary", "untyped"}
PARTS = {"histogram": {"_bucket", "_sum", "_count"}}


class Family:
    def __init__(self, name):
        self.name, self.help, self.kind, self.samples = name, None, None, []  # [(name, labels, value)]


def number(text):
    assert re.fullmatch(r"[+-]?(\d+(\.\d*)?([eE][+-]?\d+)?|Inf)|NaN", text), f"no number: {text}"
    return float(text)


def read(text):
    """name → Family.  Asserts on every fault."""
    assert text.endswith("\n") and "\r" not in text
    families, now = {}, None
    for line in text.split("\n")[:-1]:
        if line.startswith("# "):
            _, keyword, name, rest = line.split(" ", 3)
            assert keyword in ("HELP", "TYPE"), line
            if keyword == "HELP":
                assert name not in families, f"{name} stands twice"
                now = families[name] = Family(name)
                now.help = rest
            else:
                assert now and now.name == name and now.kind is None and not now.samples, line
                assert rest in KINDS, line
                now.kind = rest
            continue
        match = SAMPLE.fullmatch(line)
        assert match, f"no sample: {line!r}"
        name, labels, value = match.groups()
        assert now and now.kind, f"a sample before its TYPE: {line}"
        assert name == now.name or name[len(now.name):] in PARTS.get(now.kind, ()) and name.startswith(now.name), line
        pairs = dict(pair.split("=", 1) for pair in re.findall(LABEL, labels or ""))
        assert len(pairs) == len(re.findall(LABEL, labels or "")), f"a label twice: {line}"
        now.samples.append((name, {key: text[1:-1] for key, text in pairs.items()}, number(value)))
    for family in families.values():
        check(family)
    return families


def check(family):
    name = family.name
    assert family.help and family.help.endswith("."), f"{name}: no sentence in HELP"
    # Without an agent that has a model, without workers, or before a link is up, there is nothing to count of them.
    may_be_empty = ("holdfast_model_", "holdfast_worker_", "holdfast_cluster_link_")
    assert family.samples or name.startswith(may_be_empty), f"{name}: no sample"
    keys = [(sample, tuple(sorted(labels.items()))) for sample, labels, _ in family.samples]
    assert len(set(keys)) == len(keys), f"{name}: a sample twice"
    assert name == name.lower() and not re.search(r"_(?:milliseconds|ms|kb|mb|minutes)(?:_|$)", name), f"{name}: base units"
    assert (family.kind == "counter") == name.endswith("_total"), f"{name}: counters, and they alone, end in _total"
    assert not re.search(r"_(?:bucket|sum|count)$", name), f"{name}: is a histogram's part"
    if family.kind in ("counter", "histogram"):
        assert all(value >= 0 for _, _, value in family.samples), name
    if family.kind == "histogram":
        series = {}
        for sample, labels, value in family.samples:
            rest = tuple(sorted((key, text) for key, text in labels.items() if key != "le"))
            series.setdefault(rest, []).append((sample, labels, value))
        for samples in series.values():
            check_histogram(family.name, samples)


def check_histogram(name, samples):
    """One series of it: the samples with the same labels besides le."""
    buckets = [(number(labels["le"]), value) for sample, labels, value in samples if sample.endswith("_bucket")]
    bounds, counts = zip(*buckets)
    assert list(bounds) == sorted(set(bounds)) and bounds[-1] == math.inf, name
    assert list(counts) == sorted(counts), name
    values = {sample[len(name):]: value for sample, _, value in samples if not sample.endswith("_bucket")}
    assert values["_count"] == counts[-1] and "_sum" in values, name
