"""rows.tsv: every row that must have a test names tests that exist."""

import ast
import pathlib

TESTS = pathlib.Path(__file__).resolve().parent.parent
REQUIRED = [f"P{n}" for n in range(1, 24)]


def rows():
    for line in (TESTS / "rows.tsv").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            row, tests = line.split("\t")[:2]
            yield row, tests.split()


def functions(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_required_row_has_a_test():
    found = dict(rows())
    assert not [row for row in REQUIRED if not found.get(row)]


def test_no_row_stands_twice():
    names = [row for row, _ in rows()]
    assert len(set(names)) == len(names)


def test_every_named_test_exists():
    for row, tests in rows():
        assert tests, row
        for test in tests:
            file, _, name = test.partition("::")
            path = TESTS / file
            assert path.is_file(), f"{row}: {file}"
            if path.suffix == ".py":
                assert name in functions(path), f"{row}: {test}"
            else:
                assert name and name in path.read_text(encoding="utf-8"), f"{row}: {test}"


def test_every_portal_test_stands_in_its_row():
    found = dict(rows())
    for name in functions(TESTS / "integration" / "test_portal.py"):
        if name.startswith("test_p"):
            row = f"P{int(name[6:8])}"
            assert f"integration/test_portal.py::{name}" in found[row], name
