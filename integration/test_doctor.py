"""Broken tables, before and after the doctor, by three readers, and Apache Hudi writing after it.

`make integration` plays each of ``tests/doctor/broken.py`` and writes ``docs/doctor.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi as package
from integration.peers import Answer, HudiRs, SparkPeer
from integration.peers.canonical import from_arrow
from pyhudi.repairs.all_kinds import KINDS
from pyhudi.repairs.doctor import Treatment
from pyhudi.timeline.view import VIEWS
from tests.doctor.broken import BROKEN, Broken
from tests.golden_tables import BY_NAME

PAGE = Path(__file__).parents[1] / "docs" / "doctor.md"
INTRODUCTION = """\
`make integration` writes this page. Each line is a table of Apache Hudi that was broken on purpose,
and what three readers found in it: all of its rows, another number of rows, or an error. They are
pyhudi (its planner, without Spark), Apache Hudi 1.2.0 and hudi-rs 0.5.0. Then `pyhudi.doctor`
repaired the table, and all three read it again. At last Apache Hudi wrote a row into it (with its
metadata table off), and all three read that. [The guide](guide.md#a-table-that-is-broken) tells
how to use the doctor. What it tells of logs and of planned compactions, and leaves alone, is not on
this page."""

Rows = list[dict[str, Any]]


class Line:
    """One line of the page."""

    def __init__(self, broken: Broken) -> None:
        self.broken = broken
        self.before: list[str] = []
        self.after: list[str] = []


@pytest.fixture(scope="module")
def lines() -> Iterator[list[Line]]:
    """Each broken table that was played; the page is written when all were."""
    found: list[Line] = []
    yield found
    if len(found) == len(BROKEN) and all(line.after for line in found):
        PAGE.write_text(page(found))


@pytest.fixture(scope="module")
def whole() -> dict[str, Rows]:
    """The rows of each table before it was broken."""
    return {}


def page(found: list[Line]) -> str:
    """The page: a line for each broken table, ordered as the kinds are."""
    order = [kind.name for kind in KINDS]
    rules = {kind.name: kind.rule for kind in KINDS}
    text = [
        "# Tables that the doctor repairs",
        "",
        INTRODUCTION,
        "",
        "| kind of fault | table | broken: pyhudi | Apache Hudi | hudi-rs | repaired, all three |",
        "|---|---|---|---|---|---|",
    ]
    for line in sorted(found, key=lambda line: order.index(line.broken.kind)):
        kind, base = line.broken.kind, line.broken.base.split("_", 1)[1]
        (after,) = set(line.after)
        rule = rules[kind].removeprefix("spec/")
        file, number = rule.split()
        link = f"[{number}](spec/{file})"
        text.append(f"| {kind} ({link}) | {base} | {' | '.join(line.before)} | {after} |")
    return "\n".join(text) + "\n"


class InProcess:
    """pyhudi without Spark: the files that its planner chooses, read by Arrow."""

    def read(self, root: Path) -> Answer:
        VIEWS.forget_all()
        files = [pq.read_table(root / each.path) for each in package.Table(str(root)).files()]
        return from_arrow(pa.concat_tables(files))


def rows(reader: Any, root: Path) -> Rows:
    """The rows that a reader finds, without Hudi's own columns, in one order."""
    found = [
        {name: value for name, value in row.items() if not name.startswith("_hoodie_")}
        for row in reader.read(root).rows
    ]
    return sorted(found, key=lambda row: sorted((name, str(row[name])) for name in row))


def seen(reader: Any, root: Path, good: Rows) -> str:
    """What a reader sees of a broken table, in a few words."""
    try:
        found = rows(reader, root)
    except Exception:  # hudi-rs and Apache Hudi have errors of many kinds
        return "error"
    if found == good:
        return "all rows"
    if len(found) == len(good):
        return "other rows"
    return f"{len(found)} of {len(good)} rows"


def one_row(root: Path) -> pa.Table:
    """A row that the table has, to be written again."""
    file = pq.read_table(root / package.Table(str(root)).files()[0].path).slice(0, 1)
    return file.select([name for name in file.column_names if not name.startswith("_hoodie_")])


def cases() -> Iterator[Any]:
    """Each kind of fault once; the other tables of a kind are of the matrix."""
    kinds: set[str] = set()
    for broken in BROKEN:
        marks = [pytest.mark.matrix] if broken.kind in kinds else []
        kinds.add(broken.kind)
        yield pytest.param(broken, marks=marks, id=broken.name)


@pytest.mark.parametrize("broken", list(cases()))
def test_all_read_and_apache_hudi_writes_what_the_doctor_has_repaired(
    peers: Callable[[str], SparkPeer],
    hudi_rs: HudiRs,
    lines: list[Line],
    whole: dict[str, Rows],
    tmp_path: Path,
    broken: Broken,
) -> None:
    hudi = peers("hudi-1.2.0")
    readers = [InProcess(), hudi, hudi_rs]
    if broken.base not in whole:
        whole[broken.base] = rows(hudi, BY_NAME[broken.base].unzip(tmp_path / "good"))
    good = whole[broken.base]
    root = broken.make(tmp_path)
    line = Line(broken)
    lines.append(line)
    line.before = [seen(reader, root, good) for reader in readers]

    done = package.doctor(str(root), dry_run=False, **dict(broken.more))  # type: ignore[arg-type]

    assert {each.treatment for each in done} == {Treatment.REPAIRED}
    assert package.bins(str(root)) or broken.name == "lock"
    found = [rows(reader, root) for reader in readers]
    assert found[0] == found[1] == found[2]
    if broken.whole:
        assert found[0] == good
    hudi.write_into(root, one_row(root), hoodie__metadata__enable="false")
    again = [rows(reader, root) for reader in readers]
    assert again == found
    text = "all rows" if found[0] == good else f"{len(found[0])} of {len(good)} rows"
    line.after = [text] * len(readers)
