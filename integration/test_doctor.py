"""Broken tables, before and after the doctor, by three readers, and Apache Hudi writing after it.

`make integration` plays each of ``tests/doctor/broken.py`` and ``tests/doctor/logged.py`` that the
doctor repairs, and those with logs that it leaves alone, and writes ``docs/doctor.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi as package
from integration.peers import Answer, HudiRs, SparkPeer
from integration.peers.canonical import from_arrow
from pyhudi.repairs.all_kinds import KINDS
from pyhudi.repairs.doctor import Diagnosis, Treatment
from pyhudi.timeline.view import VIEWS
from tests.doctor import logged
from tests.doctor.broken import BROKEN, Broken
from tests.golden_tables import BY_NAME
from tests.reads.merged_table import opened
from tests.reads.merged_table import rows as merged_rows

REPAIRED = [*BROKEN, *logged.REPAIRED]
LEFT = [*logged.TOLD, *logged.UNJUDGED]

PAGE = Path(__file__).parents[1] / "docs" / "doctor.md"
INTRODUCTION = """\
`make integration` writes this page. Each line is a table of Apache Hudi that was broken on purpose,
and what three readers found in it: all of its rows, another number of rows, or an error. They are
pyhudi (its planner, without Spark), Apache Hudi 1.2.0 and hudi-rs 0.5.0. Then `pyhudi.doctor`
repaired the table, and all three read it again. At last Apache Hudi wrote a row into it (with its
metadata table off), and all three read that. Tables with `mor` in their names are merge-on-read.
[The guide](guide.md#a-table-that-is-broken) tells how to use the doctor."""
WITH_LOGS = """\
## Merge-on-read tables that it leaves as they are

Of these tables the doctor tells what is wrong, changes nothing, and says what people can do. To
repair most of them it would have to know which rows were in a log. Where it cannot see whether
there is a fault, it says *not judged*, and why: those tables have none. Where nobody reads a row, a
commit had replaced all of them before."""

Rows = list[dict[str, Any]]


class Line:
    """One line of the page; ``end`` is what all read in the end, or what the doctor says."""

    def __init__(self, broken: Broken) -> None:
        self.broken = broken
        self.before: list[str] = []
        self.end = ""


@pytest.fixture(scope="module")
def lines() -> Iterator[list[Line]]:
    """Each broken table that was played; the page is written when all were."""
    found: list[Line] = []
    yield found
    if len(found) == len(REPAIRED) + len(LEFT) and all(line.end for line in found):
        PAGE.write_text(page(found))


@pytest.fixture(scope="module")
def whole() -> dict[str, Rows]:
    """The rows of each table before it was broken."""
    return {}


def page(found: list[Line]) -> str:
    """The page: a line for each broken table, ordered as the kinds are."""
    repaired = [line for line in found if line.broken in REPAIRED]
    left = [line for line in found if line.broken in LEFT]
    readers = "| kind of fault | table | broken: pyhudi | Apache Hudi | hudi-rs |"
    text = [
        "# Tables that the doctor repairs",
        "",
        INTRODUCTION,
        "",
        f"{readers} repaired, all three |",
        "|---|---|---|---|---|---|",
        *lines_of(repaired),
        "",
        WITH_LOGS,
        "",
        f"{readers} what the doctor says |",
        "|---|---|---|---|---|---|",
        *lines_of(left),
    ]
    return "\n".join(text) + "\n"


def lines_of(found: list[Line]) -> Iterator[str]:
    """Lines of a table of the page."""
    order = [kind.name for kind in KINDS]
    rules = {kind.name: kind.rule for kind in KINDS}
    for line in sorted(found, key=lambda line: order.index(line.broken.kind)):
        kind, base = line.broken.kind, line.broken.base.split("_", 1)[1]
        file, number = rules[kind].removeprefix("spec/").split()
        link = f"[{number}](spec/{file})"
        yield f"| {kind} ({link}) | {base} | {' | '.join(line.before)} | {line.end} |"


class InProcess:
    """pyhudi without Spark: the files that its planner chooses, read by Arrow, and their logs."""

    def read(self, root: Path) -> Answer:
        VIEWS.forget_all()
        if BY_NAME[root.name].merge_on_read:
            return from_arrow(pa.Table.from_pylist(merged_rows(opened(root))))
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
    path = package.Table(str(root)).files()[0].path
    file = pq.read_table(root / path).slice(0, 1)
    own = file.select([name for name in file.column_names if not name.startswith("_hoodie_")])
    if not BY_NAME[root.name].merge_on_read:
        return own
    # Of a base file's row a log may have a newer one.
    return pa.Table.from_pylist(merged_rows(opened(root), *own.column_names)[:1], own.schema)


def advice(diagnoses: list[Diagnosis]) -> str:
    """What the doctor says that people can do, or why it cannot judge."""
    (said,) = {
        f"not judged: {each.evidence}" if each.treatment is Treatment.UNJUDGED else each.repair
        for each in diagnoses
    }
    return said


#: cases with logs that no other case of their kind stands for
WITH_LOGS_ONLY = {"orphaned_log", "damaged_log", "lost_from_plan", "log_of_no_slice"}


def cases(among: list[Broken]) -> Iterator[Any]:
    """Each kind of fault once; the other tables of a kind are of the matrix."""
    kinds: set[str] = set()
    for broken in among:
        with_logs = BY_NAME[broken.base].merge_on_read
        sampled = broken.name in WITH_LOGS_ONLY if with_logs else broken.kind not in kinds
        kinds.add(broken.kind)
        yield pytest.param(broken, marks=[] if sampled else [pytest.mark.matrix], id=broken.name)


@pytest.fixture
def good(
    peers: Callable[[str], SparkPeer], whole: dict[str, Rows], tmp_path: Path, broken: Broken
) -> Rows:
    """The rows of the table of a case before it is broken, as Apache Hudi reads them."""
    if broken.base not in whole:
        root = BY_NAME[broken.base].unzip(tmp_path / "good")
        whole[broken.base] = rows(peers("hudi-1.2.0"), root)
    return whole[broken.base]


def begun(
    broken: Broken, root: Path, readers: Sequence[Any], good: Rows, lines: list[Line]
) -> Line:
    """A new line of the page, with what ``readers`` see of the broken table."""
    line = Line(broken)
    lines.append(line)
    line.before = [seen(reader, root, good) for reader in readers]
    return line


@pytest.mark.parametrize("broken", list(cases(REPAIRED)))
def test_all_read_and_apache_hudi_writes_what_the_doctor_has_repaired(
    peers: Callable[[str], SparkPeer],
    hudi_rs: HudiRs,
    lines: list[Line],
    good: Rows,
    tmp_path: Path,
    broken: Broken,
) -> None:
    hudi = peers("hudi-1.2.0")
    readers = [InProcess(), hudi, hudi_rs]
    root = broken.make(tmp_path)
    line = begun(broken, root, readers, good, lines)

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
    line.end = "all rows" if found[0] == good else f"{len(found[0])} of {len(good)} rows"


@pytest.mark.parametrize("broken", list(cases(LEFT)))
def test_the_page_says_what_the_doctor_tells_of_logs_and_leaves_alone(
    peers: Callable[[str], SparkPeer],
    hudi_rs: HudiRs,
    lines: list[Line],
    good: Rows,
    tmp_path: Path,
    broken: Broken,
) -> None:
    root = broken.make(tmp_path)
    readers = [InProcess(), peers("hudi-1.2.0"), hudi_rs]
    line = begun(broken, root, readers, good, lines)

    done = package.doctor(str(root), dry_run=False, **dict(broken.more))  # type: ignore[arg-type]

    told = [each for each in done if each.kind == broken.kind]
    assert {each.treatment for each in told} <= {Treatment.LEFT, Treatment.UNJUDGED}
    line.end = advice(told)
