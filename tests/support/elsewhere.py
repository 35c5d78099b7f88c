"""The tests that do not run with each client at the wrong node (HOLDFAST_TEST_NODES=wrong): tests/README.md names them
in its tables, each with its reason, and is read here."""

import pathlib
import re

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"
ROW = re.compile(r"^\| (`test_[^|]*) \| ([^|]+) \|$", re.M)
NAME = re.compile(r"`(test_\w+\.py(?:::\w+)?)`")


def reasons():
    """test_x.py, or test_x.py::test_y, and why."""
    return {name: why for names, why in ROW.findall(README.read_text(encoding="utf-8")) for name in NAME.findall(names)}


def why_not(node_id, known):
    """The reason of a test, by pytest's name for it; None when it runs."""
    path, _, test = node_id.rpartition("/")[2].partition("::")
    return known.get(path) or known.get(f"{path}::{test.partition('[')[0]}")
