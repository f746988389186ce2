"""What an overwrite keeps: the cases that pyhudi and Apache Hudi are compared by.

Three small tables, with no, one and two partition columns, and every way to say what an overwrite
replaces: the PARTITION clause, Hudi's two options, and Spark's own setting.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from integration.peers import PeerError, SparkPeer

OPERATION = "hoodie.datasource.write.operation"
MODE = "hoodie.datasource.overwrite.mode"
SPARK_MODE = "spark.sql.sources.partitionOverwriteMode"

#: partition columns of each table, its old rows and the row that overwrites them
TABLES: Mapping[str, tuple[str, ...]] = {"p0": (), "p1": ("a",), "p2": ("a", "b")}
OLD = ((1, "x", "1"), (2, "x", "2"), (3, "y", "1"))
NEW = (9, "x", "1")

#: PARTITION clauses of each table, with the columns that their SELECT still gives
CLAUSES: Mapping[str, tuple[str, ...]] = {
    "p0": ("",),
    "p1": ("", "a = 'x'", "a"),
    "p2": ("", "a = 'x', b = '1'", "a = 'x', b", "a, b"),
}

#: settings by which a user says what an overwrite replaces
ASKED: tuple[Mapping[str, str], ...] = (
    {},
    {MODE: "static"},
    {MODE: "dynamic"},
    {OPERATION: "insert_overwrite"},
    {OPERATION: "insert_overwrite_table"},
    {OPERATION: "insert_overwrite_table", MODE: "dynamic"},
    {OPERATION: "insert_overwrite", MODE: "static"},
    {OPERATION: "upsert", MODE: "dynamic"},
    {OPERATION: "upsert"},
    {OPERATION: "bulk_insert"},
    {SPARK_MODE: "dynamic"},
    {SPARK_MODE: "dynamic", MODE: "static"},
    {SPARK_MODE: "dynamic", OPERATION: "insert_overwrite_table"},
    {SPARK_MODE: "static", MODE: "dynamic"},
)


@dataclass(frozen=True, slots=True)
class Case:
    """One INSERT OVERWRITE: the table, the PARTITION clause, what is set, and whether rows come."""

    table: str
    clause: str
    session: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    rows: bool = True

    def __str__(self) -> str:
        how = f"INSERT OVERWRITE ({self.clause}){'' if self.rows else ' without a row'}"
        places = {"session": self.session, "table": self.properties}
        said = [f"{p}: {k.split('.')[-1]}={v}" for p, m in places.items() for k, v in m.items()]
        return f"{self.table} {how} {', '.join(said) or 'nothing set'}"


def sql_cases() -> Iterator[Case]:
    """Each clause with each setting, in the session or as a property of the table."""
    for table, clauses in CLAUSES.items():
        for clause in clauses:
            for asked in ASKED:
                yield Case(table, clause, session=asked)
                if asked and SPARK_MODE not in asked:
                    yield Case(table, clause, properties=asked)


def sample_cases() -> Iterator[Case]:
    """Each table, each place that is asked, each disagreement and no row, once: for `make test`."""
    yield Case("p0", "")
    yield Case("p1", "a = 'x'", session={MODE: "dynamic"})
    yield Case("p2", "a = 'x', b", session={SPARK_MODE: "dynamic"})
    yield Case("p2", "a = 'x', b", properties={OPERATION: "insert_overwrite_table"})
    yield from places_that_disagree()
    yield Case("p1", "", session={MODE: "dynamic"}, rows=False)


def few_cases() -> Iterator[Case]:
    """The same, most settings once: by a clause that names some of the partition columns."""
    for asked in ASKED:
        if (asked.get(MODE) != "static" and OPERATION not in asked) or len(asked) == 1:
            yield Case("p2", "a = 'x', b", session=asked)
    for table, clause in (("p0", ""), ("p1", ""), ("p1", "a = 'x'")):
        for asked in ({}, {MODE: "dynamic"}, {OPERATION: "insert_overwrite_table"}):
            yield Case(table, clause, session=asked)
    yield Case("p2", "a = 'x', b", properties={OPERATION: "insert_overwrite_table"})


def places_that_disagree() -> Iterator[Case]:
    """The session says one mode, the table's properties the other."""
    for one, other in (("static", "dynamic"), ("dynamic", "static")):
        yield Case("p2", "a = 'x', b", session={MODE: one}, properties={MODE: other})


def empty_cases() -> Iterator[Case]:
    """Overwrites by no row."""
    for table, clause in (("p1", ""), ("p1", "a = 'x'"), ("p2", "a = 'x', b")):
        for asked in ({}, {MODE: "dynamic"}, {OPERATION: "insert_overwrite"}):
            yield Case(table, clause, session=asked, rows=False)
    yield Case("p0", "", session={SPARK_MODE: "dynamic"}, rows=False)


#: what pyhudi does otherwise, and why, in place of Hudi's answer
INSERTS = "Hudi does an INSERT INTO where the session names another operation"
CLAUSE_LOST = "Spark's setting is dynamic: it does not hand over which partitions the clause names"


def difference(case: Case) -> str | None:
    """Why pyhudi answers a case otherwise than Hudi; None where both must agree."""
    if case.session.get(OPERATION) == "upsert" and case.table != "p0":
        return INSERTS
    both = case.session.get(SPARK_MODE) == "dynamic" and case.session.get(MODE) == "static"
    return CLAUSE_LOST if both and TABLES[case.table] else None


def statement(case: Case, name: str) -> str:
    """The INSERT OVERWRITE of a case."""
    clause = case.clause
    fixed = {part.split(" = ")[0] for part in clause.split(", ") if " = " in part}
    left = [column for column in ("a", "b") if column not in fixed]
    values = dict(zip(("id", "a", "b"), NEW, strict=True))
    # Columns of the partition come last in these tables, so those that are left keep their order.
    order = [c for c in columns(case.table) if c == "id" or c in left]
    row = ", ".join(str(values[c]) if c == "id" else f"'{values[c]}'" for c in order)
    return f"insert overwrite {name} {f'partition ({clause})' if clause else ''} select {row}" + (
        "" if case.rows else " where false"
    )


def columns(table: str) -> tuple[str, ...]:
    """The columns in the order that SQL has them: those of the partition last."""
    parts = TABLES[table]
    return (*(c for c in ("id", "a", "b") if c not in parts), *parts)


class Overwriter:
    """One engine, told to do the cases on tables of its own below ``folder``."""

    def __init__(self, peer: SparkPeer, folder: Path) -> None:
        self.peer, self.folder, self.number = peer, folder / peer.format, 0
        for table in TABLES:
            self._create(f"base_{table}", table, self.folder / f"base-{table}", {})
            values = ", ".join(
                "("
                + ", ".join(
                    _literal(dict(zip(("id", "a", "b"), row, strict=True))[c])
                    for c in columns(table)
                )
                + ")"
                for row in OLD
            )
            self.peer.sql(f"insert into base_{table} values {values}")

    def _create(self, name: str, table: str, path: Path, properties: Mapping[str, str]) -> None:
        kinds = ", ".join(f"{c} {'int' if c == 'id' else 'string'}" for c in columns(table))
        parts = f"partitioned by ({', '.join(TABLES[table])})" if TABLES[table] else ""
        given = {"primaryKey": "id", **properties}
        text = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        self.peer.sql(
            f"create table {name} ({kinds}) using {self.peer.format} {parts} "
            f"location '{path}' tblproperties ({text})"
        )

    def kept(self, case: Case) -> str:
        """The ids that are in the table afterwards, or the error's first words."""
        self.number += 1
        name, path = f"t{self.number}", self.folder / f"t{self.number}"
        shutil.copytree(self.folder / f"base-{case.table}", path)
        for key, value in case.session.items():
            self.peer.sql(f"set {key} = {value}")
        try:
            self._create(name, case.table, path, case.properties)
            self.peer.sql(statement(case, name))
        except PeerError as error:
            return "refused: " + str(error)[:80]
        finally:
            for key in case.session:
                self.peer.sql(f"reset {key}")
            self.peer.sql(f"drop table if exists {name}")
        rows = self.peer.read(path).rows
        return ",".join(str(row["id"]) for row in sorted(rows, key=lambda row: row["id"]))


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)
