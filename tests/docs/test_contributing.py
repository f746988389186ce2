"""What the pages for contributors name is there: files, names in files, and targets of make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOTS = (ROOT, ROOT / "python" / "pyhudi")
GUIDES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "where_to_add.md"]
PAGES = [
    *GUIDES, ROOT / "README.md", ROOT / "ARCHITECTURE.md",
    *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]  # fmt: skip

#: what the page answers, in its order
ADDITIONS = [
    "A lock", "An index", "An operation", "A table service", "A question of the bridge",
    "An option", "An error", "A Spark line",
]  # fmt: skip
SHORT = 120

CODE = re.compile(r"`([^`\n]+)`")
#: a path from a root, folders included, or a file of the top folder
FILE = re.compile(r"(?:[\w.-]+/)*[\w-]+\.(?:py|md|toml|sbt|yml|scala|sql|json)|(?:[\w.-]+/)+")
MAKE = re.compile(r"\bmake ([a-z][a-z0-9-]*)")
TARGET = re.compile(r"^([a-z][a-z0-9-]*):(?!=)", re.MULTILINE)
ROW = re.compile(r"^\| (`[^|]+`) \| (.+) \|$", re.MULTILINE)
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def found(path: str) -> Path | None:
    return next((root / path for root in ROOTS if (root / path).exists()), None)


def named_files(text: str) -> list[str]:
    return [code for code in CODE.findall(text) if FILE.fullmatch(code) or code == "Makefile"]


def commands(text: str) -> set[str]:
    """Targets of make in code; `make` in a sentence is a verb."""
    code = CODE.findall(text) + re.findall(r"^(?:    |\$ )(make .*)$", text, re.MULTILINE)
    return {target for each in code for target in MAKE.findall(each)}


def lost_names(text: str) -> Iterator[str]:
    """Names in a row of a table that no file of the row holds."""
    for row in ROW.findall(text):
        codes = CODE.findall(" ".join(row))
        texts = [
            path.read_text("utf-8") for code in codes if (path := found(code)) and path.is_file()
        ]
        for code in codes:
            if found(code) is None and NAME.fullmatch(code):
                parts = code.split(".")
                if not any(all(re.search(rf"\b{p}\b", t) for p in parts) for t in texts):
                    yield code


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_every_file_that_a_guide_names_is_there(page: Path) -> None:
    named = named_files(page.read_text("utf-8"))
    assert named
    assert [name for name in named if found(name) is None] == []


def test_names_beside_a_file_are_in_it() -> None:
    assert list(lost_names(GUIDES[1].read_text("utf-8"))) == []


def test_the_page_answers_each_question_and_is_short() -> None:
    text = GUIDES[1].read_text("utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ADDITIONS
    assert text.count("\n") <= SHORT


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_a_page_names_is_a_target(page: Path) -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text("utf-8")))
    assert commands(page.read_text("utf-8")) - targets == set()


def test_the_tests_that_a_command_chooses_are_there() -> None:
    chosen = re.findall(r"ARGS='([\w/.]+)", GUIDES[0].read_text("utf-8"))
    assert chosen
    assert [path for path in chosen if not (ROOT / path).exists()] == []


def test_the_loop_is_made_of_targets_that_print_their_help() -> None:
    told = re.findall(r"^([a-z][a-z0-9-]*):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.M)
    assert commands(GUIDES[0].read_text("utf-8")) <= set(told)


def test_a_wrong_name_is_seen() -> None:
    assert list(lost_names("| `errors.py` | the class `NoSuchError` |")) == ["NoSuchError"]
    assert list(lost_names("| `errors.py` | below `HudiError` |")) == []
    assert named_files("in `locks/none.py`, `a.b`, `Makefile`") == ["locks/none.py", "Makefile"]
    assert commands("run `make nothing`, or make haste\n    make test # all\n") == {
        "nothing",
        "test",
    }
