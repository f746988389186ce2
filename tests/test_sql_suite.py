"""The reader of the SQL suite: what a file may say, and what a wrong statement is told."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import Row

from tests import sql_suite
from tests.sql_suite import Texts, cell_text, failures, for_engine, for_shell, parse

FILE = """-- What the file is about.

SELECT 1,
  2;
-- expect rows
-- 1 | 2

-- pyhudi only: others differ
CREATE TABLE t (id INT) USING pyhudi;
-- expect error no such luck
"""


def test_a_file_is_statements_with_what_they_give() -> None:
    first, second = parse(FILE)
    assert (first.line, first.text, first.kind, first.lines) == (
        3, "SELECT 1,\n  2", "rows", ("1 | 2",)
    )  # fmt: skip
    assert (second.line, second.kind, second.argument) == (9, "error", "no such luck")
    assert for_engine([first, second], "iceberg") == [first]


@pytest.mark.parametrize(
    "text", ["SELECT 1;", "SELECT 1\n-- expect ok", "SELECT 1;\n-- expect much"]
)
def test_a_statement_without_its_expectation_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        parse(text)


def answering(rows: Texts) -> list[str]:
    (first, *_) = parse(FILE)
    return failures([first], lambda statement: rows, {})


def test_other_rows_than_expected_are_told() -> None:
    assert answering([["1", "2"]]) == []
    (wrong,) = answering([["1", "3"]])
    assert "line 3" in wrong
    assert "1 | 3" in wrong


def test_an_error_has_to_come_and_to_say_what_is_expected() -> None:
    (_, second) = parse(FILE)

    def fail(statement: str) -> Texts:
        raise RuntimeError("no such luck today" if "INT" in statement else "else")

    assert failures([second], fail, {}) == []
    assert failures([second], lambda statement: [], {}) != []


def test_a_value_is_known_to_later_statements() -> None:
    asked = []

    def run(statement: str) -> Texts:
        asked.append(statement)
        return [["20240101"]]

    statements = parse("SELECT 1;\n-- expect value first\n\nSELECT '${first}';\n-- expect ok\n")
    assert failures(statements, run, {}) == []
    assert asked[1] == "SELECT '20240101'"


@pytest.mark.parametrize(
    ("statement", "line", "shown"),
    [
        ("SHOW TABLES LIKE 'r*'", "suite | rides | false", "rides"),
        ("DESCRIBE rides", "fare | double | NULL", "fare | double | "),
        ("SELECT 1, null", "1 | NULL", "1 | NULL"),
    ],
)
def test_the_shell_shows_tables_and_descriptions_in_its_own_way(
    statement: str, line: str, shown: str
) -> None:
    (given,) = for_shell(parse(f"{statement};\n-- expect text\n-- {line}\n"))
    assert given.lines == (shown,)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "true"),
        (1.0, "1.0"),
        (float("nan"), "NaN"),
        (Decimal("1.50"), "1.50"),
        (dt.datetime(2024, 1, 1, 0, 0, 0, 120000), "2024-01-01 00:00:00.12"),
        (b"ab", "ab"),
        ([1, None], "[1,null]"),
        ({"a": "x"}, '{"a":"x"}'),
        (Row(a="x", b=None), '{"a":"x","b":null}'),
    ],
)
def test_cells_are_what_sparks_command_line_prints(value: object, text: str) -> None:
    assert cell_text(value) == text


def test_the_suite_is_as_large_as_promised() -> None:
    statements = [s for file in sql_suite.files() for s in parse(file.read_text())]
    assert len(statements) >= 250
