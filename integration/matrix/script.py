"""One cell of the matrix: a table's life, written by the subject and by peers in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from integration.matrix.forms import DS, FORMS, INDEXES, Form
from integration.matrix.model import Model
from integration.matrix.rows import row, rows, table
from integration.peers import Answer, HudiRs, SparkPeer, difference, table_facts
from integration.peers.canonical import sort_rows
from integration.peers.tables import Place

OLD_HUDI, HUDI = "hudi-0.15.0", "hudi-1.2.0"


@dataclass(frozen=True, slots=True)
class Cell:
    """A table version, a form of key and partition, an index, and the type of the table."""

    version: int
    form: Form
    index: str
    merge_on_read: bool = False

    @property
    def name(self) -> str:
        """As it is called in test ids and result tables."""
        return f"v{self.version}-{self.form.name}-{self.index}" + "-mor" * self.merge_on_read

    def readers(self, subject: str) -> list[str]:
        """Everything that opens this version."""
        old = [OLD_HUDI] if self.version == 6 and not self.form.unreadable_in_0_15 else []
        return list(dict.fromkeys([subject, HUDI, *old, "hudi-rs"]))


@dataclass(frozen=True, slots=True)
class Step:
    """One write: who, which operation, which rows, and options beside the cell's."""

    writer: str
    operation: str
    rows: list[dict[str, Any]]
    more: dict[str, str]

    @property
    def name(self) -> str:
        """As it is called in messages and result tables."""
        index = self.more.get("hoodie.index.type", "")
        return " ".join(part for part in (self.writer, self.operation, index) if part)


def all_cells() -> list[Cell]:
    """The whole matrix. Keyless tables have no index to speak of."""
    return [
        Cell(version, form, index, merge_on_read)
        for merge_on_read in (False, True)
        for version in (6, 8, 9)
        for form in FORMS.values()
        for index in (INDEXES if form.keys else ["simple"])
    ]


def script(cell: Cell, subject: str) -> Iterator[Step]:
    """The writes of a cell in their order."""
    form = cell.form
    yield Step(subject, "bulk_insert", rows(range(12), 10), {})
    yield Step(subject, "insert", rows(range(12, 16), 10), {})
    if form.keys:
        # Two newer, one older than what is there, one new key.
        mixed = [*rows([1, 5], 20, 1), row(2, 5, 1), row(16, 20)]
        yield Step(subject, "upsert", mixed, {})
        yield Step(subject, "delete", rows([0, 7], 30), {})
    yield Step(subject, "insert_overwrite", rows([3 + 18, 3 + 24], 30, 2), {})
    if form.path is not None:
        gone = row(1, 30)
        paths = {DS + "partitions.to.delete": form.path(gone)}
        yield Step(subject, "delete_partition", [gone], paths)
    yield Step(subject, "insert_overwrite_table", rows(range(30, 42), 40), {})
    yield from _in_turn(cell, subject)


def _in_turn(cell: Cell, subject: str) -> Iterator[Step]:
    if not cell.form.keys:
        yield Step(HUDI, "insert", rows([50, 51], 50), {})
        if cell.version == 6:
            yield Step(OLD_HUDI, "insert", rows([52], 50), {})
        yield Step(subject, "insert", rows([53, 54], 60), {})
        return
    yield Step(HUDI, "upsert", [*rows([30, 31], 50, 3), row(42, 50)], {})
    if cell.index == "simple":
        # The subject need not write real filters for this index; Hudi must cope with that.
        bloom = {"hoodie.index.type": "BLOOM"}
        yield Step(HUDI, "upsert", [row(32, 50, 3), row(43, 50)], bloom)
    if cell.version == 6:
        yield Step(OLD_HUDI, "upsert", [row(33, 50, 3), row(44, 50)], {})
    yield Step(subject, "upsert", [*rows([30, 34, 42], 60, 4), row(31, 40, 4), row(45, 60)], {})
    yield Step(HUDI, "delete", rows([35, 45], 70), {})
    yield Step(subject, "delete", rows([36, 42], 70), {})


def expected(model: Model, reader: str, merge_on_read: bool) -> Answer:
    """The model's rows as ``reader`` must return them: Hudi has its own ways with partitions."""
    answer, form = model.answer(), model.form
    if reader == HUDI and form.text_in_hudi:
        column = form.text_in_hudi
        schema = [(name, "string" if name == column else kind) for name, kind in answer.schema]
        return Answer(tuple(schema), replaced(answer, column, lambda row: str(row[column])))
    if reader == OLD_HUDI and not merge_on_read:
        # It moves the partition columns to the end.
        last = form.partition_field.split(",")
        schema = sorted(answer.schema, key=lambda c: last.index(c[0]) + 1 if c[0] in last else 0)
        if form.path_in_0_15 and form.path is not None:
            return Answer(tuple(schema), replaced(answer, form.path_in_0_15, form.path))
        return Answer(tuple(schema), answer.rows)
    return answer


def replaced(
    answer: Answer, column: str, value: Callable[[dict[str, Any]], str]
) -> tuple[dict[str, Any], ...]:
    """The rows with another value in one column."""
    return tuple(sort_rows({**row, column: value(row)} for row in answer.rows))


def play(
    cell: Cell,
    subject: str,
    path: Place,
    peers: Callable[[str], SparkPeer],
    hudi_rs: HudiRs,
    told: Callable[[str, str], None],
) -> None:
    """Run the script; after each step every reader must return the model's rows.

    ``told(step, outcome)`` hears of each step before anything is raised.
    """
    model = Model(cell.form)
    constant = {
        **cell.form.options(),
        **INDEXES[cell.index],
        "hoodie.table.name": "matrix",
        "hoodie.write.table.version": str(cell.version),
        "hoodie.write.auto.upgrade": "false",
        DS + "table.type": "MERGE_ON_READ" if cell.merge_on_read else "COPY_ON_WRITE",
    }
    for number, step in enumerate(script(cell, subject)):
        options = {**constant, DS + "operation": step.operation, **step.more}
        mode = "overwrite" if number == 0 else "append"
        label = f"{number + 1}. {step.name}"
        told(label, "write failed")
        peers(step.writer).write(path, table(step.rows), options, mode)
        model.apply(step.operation, step.rows)
        assert table_facts(path).version == cell.version, label
        for reader in cell.readers(subject):
            told(label, f"{reader} failed to read")
            engine = hudi_rs if reader == "hudi-rs" else peers(reader)
            seen = engine.read(path).without_meta()
            wrong = difference(seen, expected(model, reader, cell.merge_on_read))
            told(label, f"{reader}: {wrong}" if wrong else "equal")
            assert not wrong, f"{label}, read by {reader}: {wrong}"
