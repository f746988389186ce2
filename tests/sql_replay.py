"""A random sequence of statements run on Spark, and each state held against the model.

After each statement the table as it is, every earlier state of it by time travel, a count and a
query with a condition have to give what the model gives. What fails shows the statements that led
there.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyhudi.format.partition_metadata import FILE_NAME as PARTITION_METADATA
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.pending import COMPACTING
from pyhudi.timeline.table import open_table
from pyhudi.writes.fitted import loose
from tests.spark.tables import ZONE, listing, settings
from tests.sql_draws import Made
from tests.sql_expressions import Expression
from tests.sql_model import Model
from tests.sql_sequences import Step, Story
from tests.sql_values import quoted, text_of

DYNAMIC = "spark.sql.sources.partitionOverwriteMode"
#: queries of a few rows, run once each: to compile them would take longer than all else
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
#: types of columns whose least and largest value count(*) is asked with
BOUNDED = ("int", "bigint", "date", "timestamp", "string")
#: the operations of commits that leave the rows as they are
SERVICES = ("cluster", "compact", "log_compact")
INCREMENTAL = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.read.incr.order": "requested",
}
BEGIN = "hoodie.datasource.read.begin.instanttime"
#: called after each statement with the table's folder and the model
Look = Callable[[Path, Model], None]

Texts = Counter[tuple[str | None, ...]]


def replay(
    spark: SparkSession, sequence: Story, name: str, folder: Path, look: Look | None = None
) -> None:
    """Run the sequence on a new table ``name`` in ``folder``; ``look`` is called at each state."""
    said: list[str] = []

    def run(made: Made) -> None:
        text = made.sql.replace("{t}", name)
        said.append(text if made.options is None else f"append {made.options}: {text}")
        found = spark.sql(text)
        if made.options is not None:
            write = _nullable(found).write.format("pyhudi").mode("append").options(**made.options)
            write.save(str(folder))

    try:
        said.append(f"{sequence.create} location '{folder}'".replace("{t}", name))
        spark.sql(said[-1])
        states: dict[str, Model] = {}
        for step in sequence.steps:
            with settings(spark, {ZONE: step.zone}):
                _one(spark, run, step, folder, states)
                with settings(spark, INTERPRETED):
                    _check(spark, name, step, states)
            if look is not None:
                look(folder, step.after)
        _check_readers(spark, folder, states)
    except Exception as error:
        statements = ";\n".join(said)
        raise AssertionError(f"{error}\n\nafter\n{statements};") from error
    finally:
        spark.sql(f"drop table if exists {name}")


def _nullable(frame: DataFrame) -> DataFrame:
    """``frame`` whose values may all have parts that are null, as in tables of the model.

    A new column of a table takes from a frame which of its parts are never null.
    """
    none = frame.sparkSession.createDataFrame([], loose(frame.schema))
    return frame.union(none)


def _one(
    spark: SparkSession,
    run: Callable[[Made], None],
    step: Step,
    folder: Path,
    states: dict[str, Model],
) -> None:
    """Run one statement; a commit of it, at most one, is a new state of ``states``."""
    before = _data(folder)
    with settings(spark, {DYNAMIC: "dynamic" if step.made.dynamic else "static"}):
        error = _error_of(functools.partial(run, step.made))
    table = open_table(LocalStorage(str(folder)))
    timeline = table.timeline()
    pending = [each for each in timeline.pending if each.action not in COMPACTING]
    assert not pending, f"left behind: {pending}"
    left = [
        path for path in listing(folder / ".hoodie" / ".temp") if "/" in path or ".spool" in path
    ]
    assert not left, f"left behind: {left}"
    new = [
        each.time
        for each in timeline.commits
        if each.time not in states
        and COMMITS.get(table.storage, timeline, each).operation.lower() not in SERVICES
    ]
    if step.refused is None:
        assert error is None, f"failed with {error}"
        last = _rows(states[max(states)]) if states else Counter()
        changed = _rows(step.after) != last
        assert len(new) == 1 or (not new and not changed), f"{len(new)} commits"
    else:
        assert error is not None, f"succeeded, where '{step.refused}' was expected"
        assert step.refused in error, f"'{step.refused}' is not in: {error}"
        assert not new, "what was refused has committed"
        assert _data(folder) == before, "what was refused has changed data files"
    states.update((time, step.after) for time in new)


def _error_of(work: Callable[[], None]) -> str | None:
    try:
        work()
    except Exception as error:
        return str(error)
    return None


def _data(folder: Path) -> dict[str, tuple[int, int]]:
    """The data files. A write that its tasks refuse leaves the folders of new partitions, in which
    other writers may be at work already."""
    return {
        path: found
        for path, found in listing(folder).items()
        if (folder / path).is_file()
        and not path.startswith(".hoodie")
        and not path.endswith(PARTITION_METADATA)
    }


def _check(spark: SparkSession, name: str, step: Step, states: dict[str, Model]) -> None:
    """Compare the table, its past and a query with the model, by one Spark job."""
    wanted = {"now": step.after, **states}
    wanted["where"] = _matching(step.after, step.probe)
    asked = {"now": "", "where": f"t where {step.probe.sql}".replace("{t}", name)}
    asked |= {time: f"version as of '{time}'" for time in states}
    frames = [
        _shown(spark.sql(f"select * from {name} {asked[label]}"), label, model)
        for label, model in wanted.items()
    ]
    seen: dict[str, Texts] = {label: Counter() for label in wanted}
    for label, cells in functools.reduce(DataFrame.unionAll, frames).collect():
        seen[label][tuple(cells)] += 1
    for label, model in wanted.items():
        _same(seen[label], model, asked[label] or label, step.zone)
    _check_bounds(spark, name, step)


def _check_bounds(spark: SparkSession, name: str, step: Step) -> None:
    """Compare count(*), and the bounds of columns that files know them of, with the model."""
    model = step.after
    asked = [each for each in model.columns if each.kind in BOUNDED]
    bounds = (f"min({quoted(each.name)}), max({quoted(each.name)})" for each in asked)
    found = spark.sql(f"select {', '.join(('count(*)', *bounds))} from {name}")
    seen = found.select(*(F.col(f"`{column}`").cast("string") for column in found.columns)).first()
    assert seen is not None
    wanted: list[str | None] = [str(len(model.rows))]
    for each in asked:
        held = [row[model.at(each.name)] for row in model.rows]
        known = sorted(value for value in held if value is not None)
        ends = (known[0], known[-1]) if known else (None, None)
        wanted += [_cell(end, each.kind, step.zone) for end in ends]
    assert list(seen) == wanted, f"count(*) and bounds are {list(seen)}, not {wanted}"


def _check_readers(spark: SparkSession, folder: Path, states: dict[str, Model]) -> None:
    """The DataFrame reader gives the same states as SQL."""
    for time, model in states.items():
        frame = spark.read.format("pyhudi").option("as.of.instant", time).load(str(folder))
        # By path the columns come as they were written, in SQL those of the partitions are last.
        assert len(frame.columns) == len(model.columns)
        frame = frame.select(*(f"`{column.name}`" for column in model.columns))
        seen = Counter(tuple(cells) for _, cells in _shown(frame, time, model).collect())
        _same(seen, model, f"read as of {time}")
    if states:
        _check_ranges(spark, folder, sorted(states))


def _check_ranges(spark: SparkSession, folder: Path, times: list[str]) -> None:
    """From each commit on, an incremental read gives the rows that later ones wrote."""
    reader = spark.read.format("pyhudi")
    table = reader.load(str(folder))
    for time in times[:-1]:
        asked = {**INCREMENTAL, BEGIN: time}
        frames = (
            reader.load(str(folder), **asked),
            table.where(F.col("_hoodie_commit_time") > time).select(*table.columns),
        )
        assert frames[0].columns == table.columns
        texts = [F.col(f"`{column}`").cast("string") for column in table.columns]
        found = [Counter(map(tuple, frame.select(*texts).collect())) for frame in frames]
        assert found[0] == found[1], f"since {time}: {found[0]}, and by meta column {found[1]}"


def _matching(model: Model, probe: Expression) -> Model:
    rows = tuple(row for row in model.rows if probe.of(model.scope(row, "t")))
    return Model(model.definition, model.columns, rows)


def _shown(frame: DataFrame, label: str, model: Model) -> DataFrame:
    """(label, cells as texts); the columns are compared at once."""
    columns = [(field.name, field.dataType.simpleString()) for field in frame.schema]
    wanted = [(column.name, column.kind) for column in model.columns]
    assert columns == wanted, f"columns as of {label}: {columns}, not {wanted}"
    cells = F.array(*(F.col(f"`{name}`").cast("string") for name, _ in columns))
    return frame.select(F.lit(label).alias("label"), cells.alias("cells"))


def _rows(model: Model, zone: str = "UTC") -> Texts:
    return Counter(
        tuple(_cell(value, each.kind, zone) for value, each in zip(row, model.columns, strict=True))
        for row in model.rows
    )


def _cell(value: Any, kind: str, zone: str) -> str | None:
    return None if value is None else text_of(value, kind, zone)


def _same(seen: Texts, model: Model, what: str, zone: str = "UTC") -> None:
    wanted = _rows(model, zone)
    assert seen == wanted, (
        f"{what}: {sum(seen.values())} rows for {sum(wanted.values())}; missing "
        f"{list((wanted - seen).elements())}, unexpected {list((seen - wanted).elements())}"
    )
