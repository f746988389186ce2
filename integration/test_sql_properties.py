"""Every tenth of the random sequences of SQL statements, as Apache Hudi and hudi-rs read it.

Those on merge-on-read tables, with services between the statements, are read so, too.

Once columns were renamed, dropped or moved, Apache Hudi reads the table with its schema history.
What hudi-rs does not read is told at ``_known_to_hudi_rs``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from integration.peers import HudiRs, SparkPeer
from integration.peers.canonical import Answer, canonical_map, plain, sort_rows
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table
from tests.sequence_numbers import asked
from tests.sql_model import Model
from tests.sql_replay import replay
from tests.sql_sequences import Story, logged_story, story
from tests.sql_values import fields, is_struct

#: a sample for `make test`: a table with a struct, an array and a map, and a schema history at last
SAMPLE = (30,)
#: of those with logs one by commit time under a global index, with a clustering
LOGGED = (70,)
TENTHS = [n for n in asked("0:100") if n % 10 == 0]
VECTORS = "spark.sql.parquet.enableVectorizedReader"
ON_READ = {"hoodie.schema.on.read.enable": "true"}


def _read_by_hudi(hudi: SparkPeer, folder: Path, model: Model) -> Answer:
    """By vectors, as Hudi does by itself, but where ids tell columns and fields apart.

    Its vectorized reader takes the fields of a struct by their names even then.
    """
    if not model.by_ids:
        return hudi.read(folder)
    hudi.sql(f"set {VECTORS}=false")
    try:
        return hudi.read(folder, ON_READ)
    finally:
        hudi.sql(f"reset {VECTORS}")


def _known_to_hudi(model: Model) -> bool:
    """Whether Apache Hudi 1.2.0 reads the table: see spec/schema_evolution.md S4."""
    return not model.by_ids or all(
        "timestamp_ntz" not in each.kind or each.kind == "timestamp_ntz" for each in model.columns
    )


def _known_to_hudi_rs(folder: Path, model: Model) -> bool:
    """Whether hudi-rs 0.5.0 reads tables of the kind.

    It has no code for columns told by ids (spec/schema_evolution.md S4), and none for merges of
    logs alone (spec/log_files.md L10). Its Avro parser refuses names outside ASCII, which Avro's in
    Java takes, and its schemas have no time without a zone: it panics. It merges no logs whose
    columns have a time within: it holds that of a log for another type than that of a base file.
    """
    if next(folder.glob(".hoodie/timeline/*.logcompaction*"), None) is not None:
        return False
    within = any("timestamp" in c.kind and c.kind != "timestamp" for c in model.columns)
    if within and any(".hoodie" not in log.parts for log in folder.rglob(".*.log.*")):
        return False
    names = all(path.isascii() for path in model.paths)
    times = all("timestamp_ntz" not in each.kind for each in model.columns)
    return names and times and not model.by_ids


def rows_of(answer: Answer, model: Model) -> list[dict[str, object]]:
    """The rows, once the columns are the model's."""
    assert {name for name, _ in answer.schema} == set(model.names)
    return sort_rows(answer.rows)


def wanted(model: Model) -> list[dict[str, object]]:
    return sort_rows(
        {each.name: canonical(v, each.kind) for each, v in zip(model.columns, row, strict=True)}
        for row in model.rows
    )


def canonical(value: Any, kind: str) -> Any:
    """A value of the model in the form of the peers' answers."""
    if value is None:
        return None
    if is_struct(kind):
        given = zip(fields(kind), value, strict=True)
        return {each.name: canonical(part, each.kind) for each, part in given}
    if kind.startswith("map<"):
        return canonical_map(value.items())
    return plain(value)


def _sequences() -> Iterator[object]:
    for tell, sample in ((story, SAMPLE), (logged_story, LOGGED)):
        for number in dict.fromkeys((*sample, *TENTHS)):
            if tell is story or _is_compared(tell(number)):
                marks = () if number in sample else pytest.mark.matrix
                yield pytest.param(tell, number, marks=marks)


def _is_compared(told: Story) -> bool:
    """Whether Apache Hudi 1.2.0 can merge the logs.

    Of ordering values other than ints it fails to compare one in a log with null.
    """
    by_event_time = told.start.definition.decides
    return by_event_time is None or all(s.after.kind(by_event_time) == "int" for s in told.steps)


@pytest.mark.parametrize(("tell", "number"), list(_sequences()))
def test_the_peers_read_what_a_random_sequence_leaves(
    spark: SparkSession,
    peers: Callable[[str], SparkPeer],
    hudi_rs: HudiRs,
    tmp_path: Path,
    tell: Callable[[int], Story],
    number: int,
) -> None:
    hudi = peers("hudi-1.2.0")

    def look(folder: Path, model: Model) -> None:
        if not open_table(LocalStorage(str(folder))).timeline().commits:
            return  # Apache Hudi has no schema for a table that nothing was written to
        if _known_to_hudi(model):
            found = _read_by_hudi(hudi, folder, model).without_meta()
            assert rows_of(found, model) == wanted(model), "read by Apache Hudi"
        if _known_to_hudi_rs(folder, model):
            found = hudi_rs.read(folder).without_meta()
            assert rows_of(found, model) == wanted(model), "read by hudi-rs"

    replay(spark, tell(number), f"{tell.__name__}_{number}", tmp_path / "t", look)
