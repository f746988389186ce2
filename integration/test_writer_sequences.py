"""Some random sequences of DataFrame writes as Apache Hudi and hudi-rs read them, and write on.

Apache Hudi's own upsert comes last: under an index that looks keys up it finds every base row, also
one of a key that logs have deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from integration.peers import HudiRs, SparkPeer
from tests.sequence_numbers import asked, numbers
from tests.writer_model import Row, Rows
from tests.writer_sequences import LOGGED, OPERATION, Player, Setup, Story, story, typed

#: a sample for `make test`: by commit time, with deletes that have two ordering values
SAMPLE = (14,)
#: Apache Hudi 1.2.0 fails to write to a table whose ordering values are decimals
MORE = [n for n in asked("0:60") if "decimal" not in story(n).setup.ddl]
HUDI = {"hoodie.write.auto.upgrade": "false", "hoodie.metadata.enable": "false"}

Texts = Counter[tuple[Any, ...]]


def held(rows: Rows) -> Texts:
    """Each row by its key and the text that no other row has."""
    return Counter((row["id"], row["seq"], row["v"]) for row in rows.held.values())


def found(rows: Iterable[dict[str, Any]]) -> Texts:
    return Counter((row["id"], row["seq"], row["v"]) for row in rows)


def last_batch(setup: Setup, rows: Rows) -> list[Row]:
    """A row that wins for each key that the table has or had, where that key was last."""
    order = {"ts": 9, "ts2": 9}
    graves = {place for place in rows.graves if place not in rows.held}
    if setup.shape.everywhere:
        known = {place[1] for place in rows.held}
        graves = {place for place in graves if place[1] not in known}
        graves = set({place[1]: place for place in sorted(graves, key=str)}.values())
    batch = []
    for number, place in enumerate(sorted({*rows.held, *graves}, key=str)):
        row: Row = dict.fromkeys(setup.names)
        row |= dict(zip(setup.shape.keys, place[1], strict=True))
        row |= {"seq": row["seq"] or 0, "p": "x", "day": 0, "v": f"last {number}", **order}
        batch.append(row | ({setup.shape.partition: place[0]} if setup.shape.partition else {}))
    return batch


def written_by_hudi(hudi: SparkPeer, told: Story, folder: Path, batch: list[Row]) -> None:
    setup = told.setup
    rows = typed([tuple(row[name] for name in setup.names) for row in batch], setup.ddl)
    columns = zip(setup.names, zip(*rows, strict=True), strict=True)
    table = pa.table({name: pa.array(list(v), setup.arrow(name)) for name, v in columns})
    hudi.write(folder, table, {**setup.options, **HUDI, OPERATION: "upsert"})


@pytest.mark.parametrize("number", numbers(SAMPLE, MORE))
def test_the_peers_read_and_go_on_with_what_a_random_sequence_leaves(
    spark: SparkSession,
    peers: Callable[[str], SparkPeer],
    hudi_rs: HudiRs,
    tmp_path: Path,
    number: int,
) -> None:
    hudi, told = peers("hudi-1.2.0"), story(number)
    player = Player(spark, told, tmp_path, (LOGGED,))
    steps = [step for step, _ in zip(told.steps, player.steps(), strict=True)]
    rows = steps[-1].after

    def by_hudi() -> Texts:
        return found(hudi.read(player.logged).without_meta().rows)

    assert by_hudi() == held(rows), f"read by Apache Hudi\n{told}"
    if not told.merges_logs_alone:
        seen = found(hudi_rs.read(player.logged).without_meta().rows)
        assert seen == held(rows), f"read by hudi-rs\n{told}"
    hudi.sql(f"create or replace temporary view seen using hudi options (path '{player.logged}')")
    for key in {row["id"] for row in rows.held.values()}:
        seen = found(hudi.sql(f"select * from seen where id = {key}").rows)
        wanted = Counter({row: count for row, count in held(rows).items() if row[0] == key})
        assert seen == wanted, f"id = {key}, by Apache Hudi\n{told}"
    batch = last_batch(told.setup, rows)
    written_by_hudi(hudi, told, player.logged, batch)
    after = rows.upserted(batch)
    assert by_hudi() == held(after), f"after an upsert of Apache Hudi\n{told}"
    read = spark.read.format("pyhudi").load(str(player.logged))
    assert found(row.asDict() for row in read.collect()) == held(after), f"read by pyhudi\n{told}"
