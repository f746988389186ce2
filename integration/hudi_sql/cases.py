"""The cases, as data: ``cases/*.sql`` has one file for each chapter of the page.

A case begins with ``-- case: NAME``. Each of its statements is a line that ends with a semicolon.
``{format}`` is the table format, ``{folder}`` an empty folder. ``let NAME = SELECT ...`` keeps one
value, and later statements have it as ``{NAME}``. A line ``-- differs: WHY`` before a statement
says that its outcome on pyhudi is another one than on Apache Hudi, and why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "cases"
ORDER = (
    "create", "ctas", "insert", "overwrite", "update", "delete", "merge", "time_travel",
    "partitions", "alter", "show",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement; ``differs`` is the reason if pyhudi does not do what Hudi does."""

    text: str
    differs: str | None = None

    @property
    def kept(self) -> tuple[str, str] | None:
        """Name and query of a ``let``; None for other statements."""
        found = re.fullmatch(r"let (\w+) = (.*)", self.text)
        return (found.group(1), found.group(2)) if found else None

    @property
    def is_query(self) -> bool:
        """Whether its rows are compared; of other statements only that they succeed."""
        return re.match(r"(select|show|describe|with)\b", self.text) is not None

    @property
    def is_setting(self) -> bool:
        return self.text.startswith("set ")


@dataclass(frozen=True, slots=True)
class Case:
    """A list of statements that runs in a database of its own."""

    chapter: str
    name: str
    statements: tuple[Statement, ...]


def all_cases() -> list[Case]:
    """The cases of all chapters, in the page's order."""
    return [case for chapter in ORDER for case in parse(chapter, _text(chapter))]


def _text(chapter: str) -> str:
    return (FOLDER / f"{chapter}.sql").read_text(encoding="utf-8")


def parse(chapter: str, text: str) -> list[Case]:
    """The cases of one file; ``ValueError`` names a line that is none of the above."""
    found: list[Case] = []
    for block in re.split(r"^-- case: ", text, flags=re.MULTILINE)[1:]:
        name, _, body = block.partition("\n")
        statements, differs = [], None
        for line in filter(None, map(str.strip, body.splitlines())):
            if line.startswith("-- differs: "):
                differs = line.removeprefix("-- differs: ")
            elif line.endswith(";") and not line.startswith("--"):
                statements.append(Statement(line.removesuffix(";"), differs))
                differs = None
            else:
                raise ValueError(f"case '{name}' has the line '{line}', which is no statement")
        found.append(Case(chapter, name.strip(), tuple(statements)))
    return found
