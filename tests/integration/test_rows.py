"""rows.tsv: every row that must have a test names tests that exist, and says what it is about."""

import ast
import functools
import pathlib
import re

TESTS = pathlib.Path(__file__).resolve().parent.parent
REQUIRED = [f"{letter}{n}" for letter, last in (("P", 23), ("W", 10), ("N", 20), ("A", 101))
            for n in range(1, last + 1)]

FIELD_CASES = (1, 3, 5, 6, 8, 9, 11, 12, 14, 15, 16, 17, 19, 21, 24, 25, 26, 27, 28, 29, 31, 33, 35, 37, 38, 40,
               41, 43, 44, 45, 47, 48, 49, 51, 52, 53, 55, 56, 58, 59, 61, 62, 63, 66)
REQUIRED += [f"F{n:02}" for n in FIELD_CASES]
NAMED = re.compile(r"test((?:_[pwnag][0-9]+)+)_")  # its name begins with its rows


def table():
    return (TESTS / "rows.tsv").read_text(encoding="utf-8").splitlines()


def rows():
    for line in table():
        if line and not line.startswith("#"):
            row, tests = line.split("\t")[:2]
            yield row, tests.split()


@functools.cache
def functions(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".c":
        return set(re.findall(r"^static void (test_\w+)\(", text, re.M))
    return {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


def test_every_required_row_has_a_test():
    found = dict(rows())
    assert not [row for row in REQUIRED if not found.get(row)]


def test_field_cases_are_44():
    assert len(set(FIELD_CASES)) == 44


def test_no_row_stands_twice():
    names = [row for row, _ in rows()]
    assert len(set(names)) == len(names)


def test_every_row_says_what_it_is_about_in_a_sentence():
    for line in table():
        if not line.startswith("#"):
            row, _, sentence = line.split("\t")
            assert re.fullmatch(r"[A-Z].{10,120}\.", sentence), f"{row}: {sentence}"


def test_every_letter_of_a_row_is_explained():
    explained = {match[1] for line in table() if (match := re.match(r"#   ([A-Z])  \w", line))}
    assert {row[0] for row, _ in rows()} == explained


def test_every_named_test_exists():
    for row, tests in rows():
        assert tests, row
        for test in tests:
            file, _, name = test.partition("::")
            path = TESTS / file
            assert path.is_file(), f"{row}: {file}"
            if path.suffix in (".py", ".c"):
                assert name in functions(path), f"{row}: {test}"
            else:
                assert name and name in path.read_text(encoding="utf-8"), f"{row}: {test}"


def rows_in(name):
    """The rows that a test's name begins with."""
    named = NAMED.match(name)
    rows = named[1].strip("_").split("_") if named else []
    return [row.upper() if row[0] == "g" else row[0].upper() + row[1:].lstrip("0") for row in rows]


def test_every_test_that_names_rows_stands_in_them():
    found = dict(rows())
    for path in sorted(TESTS.glob("*/test_*.[cp]*")):
        for name in functions(path):
            for row in rows_in(name):
                assert f"{path.parent.name}/{path.name}::{name}" in found.get(row, []), f"{row}: {name}"


def test_every_test_of_a_required_row_carries_its_number():
    found = dict(rows())
    for row in REQUIRED:
        for test in found[row]:
            file, _, name = test.partition("::")
            text = (TESTS / file).read_text(encoding="utf-8")
            assert row in rows_in(name) or re.search(rf"\b{row}\b", text), f"{row}: {test}"
