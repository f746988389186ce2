"""Files of SQL statements with what each must give, run on any engine and through any route.

A statement ends with a semicolon; the ``-- expect`` line behind it says what is to be seen, up to
the next empty line::

    UPDATE rides SET fare = 2 WHERE id = 1;
    -- expect rows of rides
    -- 1 | 2.0

``ok``: it succeeds. ``rows``: its rows, in any order; ``ordered rows``: in this one. ``rows of
TABLE``: those of the table afterwards. ``text``: its output has each of the lines. ``value NAME``:
its one value replaces ``${NAME}`` from there on; ``${folder}`` is an empty folder. ``error TEXT``:
it fails, and the message has the text. A line ``-- pyhudi only: WHY`` before a statement keeps it
from other engines. Cells are what Spark's own command line prints, NULL for null.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "sql"
KINDS = ("ok", "rows", "ordered rows", "rows of", "text", "value", "error")
SEPARATOR = " | "

Texts = list[list[str]]
#: runs one statement; the cells of its rows as texts, or any exception with the error's message
Run = Callable[[str], Texts]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a file, and what it must give: ``kind`` is one of ``KINDS``."""

    line: int
    text: str
    kind: str
    argument: str
    lines: tuple[str, ...]
    only_pyhudi: bool


def files() -> list[Path]:
    """All files of the suite."""
    return sorted(FOLDER.glob("*.sql"))


def parse(text: str) -> list[Statement]:
    """The statements of a file; ``ValueError`` names a line that is none of the above."""
    found: list[Statement] = []
    for block in re.finditer(r"(?:^(?!\s*$).*\n?)+", text, re.MULTILINE):
        line = text.count("\n", 0, block.start()) + 1
        lines = block.group().splitlines()
        first = next((at for at, each in enumerate(lines) if not each.startswith("--")), None)
        if first is not None:
            found.append(_statement(lines, first, line))
    return found


def _statement(lines: list[str], first: int, line: int) -> Statement:
    here = f"the statement at line {line + first}"
    marks = [at for at, each in enumerate(lines) if each.startswith("-- expect ")]
    if len(marks) != 1 or marks[0] < first or not lines[marks[0] - 1].endswith(";"):
        raise ValueError(f"{here} needs a semicolon at its end and one '-- expect' behind it")
    wanted = lines[marks[0]].removeprefix("-- expect ")
    kind = max((k for k in KINDS if wanted == k or wanted.startswith(k + " ")), key=len, default="")
    if not kind:
        raise ValueError(f"{here} expects '{wanted}', which is none of {', '.join(KINDS)}")
    return Statement(
        line + first,
        "\n".join(lines[first : marks[0]]).removesuffix(";"),
        kind,
        wanted.removeprefix(kind).strip(),
        tuple(each.removeprefix("--").strip() for each in lines[marks[0] + 1 :]),
        any(each.startswith("-- pyhudi only: ") for each in lines[:first]),
    )


def failures(statements: Iterable[Statement], run: Run, values: Mapping[str, str]) -> list[str]:
    """Run the statements in turn; what was wrong with which, empty where nothing was.

    ``values`` stand for ``${NAME}`` in the texts.
    """
    known, found = dict(values), []
    for each in statements:
        text = re.sub(
            r"\$\{(\w+)\}", lambda name: known.get(name.group(1), name.group()), each.text
        )
        wrong = _failure(each, text, run, known)
        if wrong:
            found.append(f"line {each.line}: {text}\n    {wrong}")
    return found


def for_engine(statements: Iterable[Statement], name: str) -> list[Statement]:
    """What tables of another format must give too: the same rows, and an error of any text."""
    return [
        replace(
            each,
            text=re.sub(r"USING pyhudi\b", f"USING {name}", each.text),
            argument="" if each.kind == "error" else each.argument,
        )
        for each in statements
        if not each.only_pyhudi
    ]


def for_shell(statements: Iterable[Statement]) -> list[Statement]:
    """The same for ``spark-sql``, which shows tables by name alone and no NULL in descriptions."""
    return [
        replace(each, lines=tuple(_in_shell(each, line) for line in each.lines))
        for each in statements
    ]


def _in_shell(each: Statement, line: str) -> str:
    if each.text.startswith(("SHOW TABLES", "SHOW VIEWS")):
        return line.split(SEPARATOR)[1]
    if each.text.startswith("DESCRIBE"):
        return line.removesuffix("NULL")
    return line


def _failure(each: Statement, text: str, run: Run, known: dict[str, str]) -> str:
    try:
        rows = run(text)
        if each.kind == "rows of":
            rows = run(f"SELECT * FROM {each.argument}")
    except Exception as error:
        message = str(error)
        expected = each.kind == "error" and each.argument in message
        return "" if expected else f"failed with {message[:700]}"
    shown = [SEPARATOR.join(row) for row in rows]
    if each.kind == "error":
        return f"succeeded with {shown}, where '{each.argument}' was expected"
    if each.kind == "text":
        output = "\n".join(shown)
        missing = [line for line in each.lines if line not in output]
        return f"{missing} is missing in:\n{output}" if missing else ""
    if each.kind == "value":
        known[each.argument] = rows[0][0]
        return ""
    if each.kind == "ok":
        return ""
    wanted = list(each.lines)
    if each.kind != "ordered rows":
        shown, wanted = sorted(shown), sorted(wanted)
    return "" if shown == wanted else f"gave {shown}\n    not  {wanted}"


def texts_of(rows: Iterable[Iterable[Any]]) -> Texts:
    """Rows that PySpark has collected as Spark's own command line prints them."""
    return [[cell_text(value) for value in row] for row in rows]


def cell_text(value: Any, inside: bool = False) -> str:
    """One value; texts ``inside`` of others are in quotation marks."""
    if value is None:
        return "null" if inside else "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, dt.datetime):
        text = value.isoformat(" ")
        return text.rstrip("0") if "." in text else text
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode()
    if isinstance(value, tuple):
        names = getattr(value, "__fields__", ())
        pairs = zip(names, value, strict=True)
        return "{" + ",".join(f'"{name}":{cell_text(part, True)}' for name, part in pairs) + "}"
    if isinstance(value, dict):
        pairs = ((cell_text(k, True), cell_text(v, True)) for k, v in value.items())
        return "{" + ",".join(f"{k}:{v}" for k, v in pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(cell_text(part, True) for part in value) + "]"
    return f'"{value}"' if inside and isinstance(value, str) else str(value)
