"""Tables that pyhudi and Apache Hudi write in turn: after each write all readers agree.

Every reader must return the rows of a Python dict model. ``make test`` plays a sample that has each
version, each index, and keys and partitions of no, one and two columns in it; ``make integration``
plays all cells and writes ``docs/cross_reads.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.matrix.forms import FORMS
from integration.matrix.script import Cell, all_cells, play
from integration.peers import HudiRs, SparkPeer
from tests.spark_lines import NEWEST, by_line

RESULTS = Path(__file__).parents[1] / "docs" / "cross_reads.md"

INTRODUCTION = """\
`make integration` writes this page. A cell is a table version, a form of key and partitions, an
index, and the type of the table: `mor` is merge-on-read. pyhudi and Apache Hudi write the same
table in turn, in the steps listed below; after each step pyhudi, Apache Hudi 1.2.0, hudi-rs 0.5.0
and, for version 6, Apache Hudi 0.15.0 read it, and each must return the rows of a model that knows
none of them."""

SAMPLE = {
    "v6-complex-single-simple",
    "v8-timestamp-text-bloom",
    "v9-flat-composite-bucket",
    "v9-keyless-simple",
    "v6-multi-simple-mor",
    "v9-composite-bucket-mor",
}

ON_EACH_LINE = "v9-flat-keyless-simple"

Outcomes = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def outcomes() -> Iterator[Outcomes]:
    """Outcome of each step by cell; they go to the page if all cells of a type of table ran."""
    found: Outcomes = {}
    yield found
    cells = all_cells()
    for merge_on_read in (False, True):
        if {c.name for c in cells if c.merge_on_read is merge_on_read} <= found.keys():
            RESULTS.write_text(result_table(found, RESULTS.read_text()))


def result_table(found: Outcomes, before: str) -> str:
    """Markdown: a line for each cell, its steps, and what was wrong where something was.

    Cells that were not played now keep their lines of the page ``before``.
    """
    lines = [
        "# Cross-reads",
        "",
        INTRODUCTION,
        "",
        "| cell | steps with equal rows | else |",
        "|---|---|---|",
    ]
    kept = {line.split(" ")[1]: line for line in before.splitlines() if line.startswith("| v")}
    for cell in (cell.name for cell in all_cells()):
        if cell not in found:
            lines += [kept[cell]] if cell in kept else []
            continue
        steps = found[cell]
        equal = [step for step, outcome in steps.items() if outcome == "equal"]
        wrong = [f"{step}: {outcome}" for step, outcome in steps.items() if outcome != "equal"]
        lines.append(f"| {cell} | {len(equal)} of {len(steps)} | {'; '.join(wrong)} |")
    lines += ["", "Steps of each form, in order:", ""]
    told = {line.split(":")[0]: line for line in before.splitlines() if line.startswith("* ")}
    for form in FORMS:
        longest = max((s for c, s in found.items() if f"-{form}-" in c), key=len, default={})
        line, known = f"* {form}: " + ", ".join(longest), told.get(f"* {form}", "")
        lines.append(max(line, known, key=lambda each: each.count(",")))
    return "\n".join(lines) + "\n"


def cells() -> list[object]:
    """Cells as parameters; those outside the sample carry the mark ``matrix``."""
    return [
        pytest.param(cell, id=cell.name, marks=() if cell.name in SAMPLE else pytest.mark.matrix)
        for cell in all_cells()
    ]


@pytest.mark.parametrize("cell", cells())
def test_all_readers_return_the_rows_of_the_model_after_each_write(
    cell: Cell,
    peers: Callable[[str], SparkPeer],
    hudi_rs: HudiRs,
    tmp_path: Path,
    outcomes: Outcomes,
) -> None:
    steps = outcomes.setdefault(cell.name, {})
    play(cell, "pyhudi", tmp_path / "matrix", peers, hudi_rs, steps.__setitem__)


@pytest.mark.parametrize("line", by_line(but="3.5"))
def test_a_table_goes_between_each_spark_line_and_apache_hudi(
    line: str, peers: Callable[[str], SparkPeer], hudi_rs: HudiRs, tmp_path: Path
) -> None:
    cell = next(c for c in all_cells() if c.name == ON_EACH_LINE)
    play(cell, f"pyhudi-{line}", tmp_path / "matrix", peers, hudi_rs, lambda step, outcome: None)


@pytest.mark.matrix
def test_a_table_of_several_columns_goes_between_the_newest_spark_and_apache_hudi(
    peers: Callable[[str], SparkPeer], hudi_rs: HudiRs, tmp_path: Path
) -> None:
    cell = next(c for c in all_cells() if c.name == "v9-composite-bucket")
    play(cell, f"pyhudi-{NEWEST}", tmp_path / "matrix", peers, hudi_rs, lambda step, outcome: None)


def test_the_sample_has_every_version_and_index_and_number_of_columns() -> None:
    sample = [cell for cell in all_cells() if cell.name in SAMPLE]
    assert {cell.name for cell in sample} == SAMPLE

    def facets(cells: list[Cell]) -> list[set[object]]:
        return [
            {cell.version for cell in cells},
            {cell.index for cell in cells},
            {cell.merge_on_read for cell in cells},
            {len(cell.form.keys) for cell in cells},
            {len(cell.form.partition_field.split(",")) * cell.form.partitioned for cell in cells},
        ]

    assert facets(sample) == facets(all_cells())


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["v6-composite-simple", "v9-timestamp-bloom"])
def test_the_model_is_right_when_apache_hudi_writes_everything(
    name: str, peers: Callable[[str], SparkPeer], hudi_rs: HudiRs, tmp_path: Path
) -> None:
    cell = next(c for c in all_cells() if c.name == name)
    play(cell, "hudi-1.2.0", tmp_path / "matrix", peers, hudi_rs, lambda step, outcome: None)
