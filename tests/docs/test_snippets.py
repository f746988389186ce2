"""The code that readers paste is run: every block of README and docs, each page from the top.

``python`` blocks of a page share their names; ``sql`` blocks run statement by statement, and
``console`` lines that begin with ``$ pyhudi`` as the command. ``/data/`` and ``/tmp/`` are a
folder of the test.
The cases of docs/hudi_sql.md run in integration/hudi_sql, which the page is made by.
``shell`` blocks start programs of their own: integration/test_jvm_first.py runs those of the guide,
test_console_lines.py those of the README, without what they start.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyhudi.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
RUN_HERE = {"python", "sql", "console"}
LANGUAGES = RUN_HERE | {"shell", "text"}

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`((?:[a-z_-]+/)+[\w.-]*)`")
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@dataclass(frozen=True)
class Snippet:
    """A block of code and where it begins, for tracebacks."""

    page: Path
    line: int
    language: str
    text: str

    def run(self, names: dict[str, Any]) -> None:
        if self.language == "python":
            # Blank lines before it, so that a traceback has the page's own line numbers.
            exec(compile("\n" * self.line + self.text, str(self.page), "exec"), names)
        elif self.language == "sql":
            for statement in filter(str.strip, self.text.split(";")):
                names["spark"].sql(statement).collect()
        elif self.language == "console":
            for line in self.text.splitlines():
                _, command, *arguments = shlex.split(line)
                assert command == "pyhudi", f"{self.page.name}: {line} cannot be run"
                assert main(arguments) == 0


def snippets(page: Path, data: str) -> Iterator[Snippet]:
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        code = found[2].replace("/data/", f"{data}/").replace("/tmp/", f"{data}/")
        yield Snippet(page, text[: found.start()].count("\n") + 1, found[1], code)


def with_code(page: Path) -> bool:
    return page.name != "hudi_sql.md" and any(
        s.language in RUN_HERE for s in snippets(page, "/data")
    )


@pytest.mark.spark
@pytest.mark.parametrize("page", [p for p in PAGES if with_code(p)], ids=lambda p: p.name)
def test_the_code_of_a_page_runs(page: Path, spark: SparkSession, tmp_path: Path) -> None:
    names: dict[str, Any] = {"spark": spark}
    with contextlib.redirect_stdout(None):
        for snippet in snippets(page, str(tmp_path)):
            snippet.run(names)
    assert names["spark"].sparkContext is spark.sparkContext


def test_pages_with_code_are_found() -> None:
    assert {"README.md", "guide.md"} <= {page.name for page in PAGES if with_code(page)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_its_language(page: Path) -> None:
    assert {s.language for s in snippets(page, "/data")} <= LANGUAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    broken = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    named = PATH.findall(page.read_text(encoding="utf-8"))
    roots = (ROOT, ROOT / "python" / "pyhudi")
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []


def test_a_snippet_that_fails_names_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```python\nx = 1\nassert x == 2\n```\n")
    (snippet,) = snippets(page, "/data")
    with pytest.raises(AssertionError) as error:
        snippet.run({})
    assert error.traceback[-1].lineno == 4
