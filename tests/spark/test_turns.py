"""What the writes of a micro-batch are called, and that a table has one count by all its paths.

No Spark session is needed.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyhudi.application.batches import MicroBatch
from pyhudi.application.runtime import Runtime
from pyhudi.spark.handlers import Handlers
from pyhudi.spark.protocol import Place
from pyhudi.spark.questions import Target
from pyhudi.spark.turns import inserted, saved, turn_of
from pyhudi.storage.base import Storage
from pyhudi.storage.open import open_storage
from pyhudi.writes.intent import OPERATION, Overwrite, SaveMode
from tests.fakes import FakeClock

BATCH = MicroBatch("query", "run", 7)
NOBODY = cast(Any, None)


class Cluster:
    """Hadoop's client of a cluster whose name is nn:8020."""

    def authority(self) -> str:
        return "nn:8020"


def opened(root: str) -> Storage:
    return open_storage(root, {}, hadoop=lambda root: cast(Any, Cluster()))


def ordinals(*paths: str, batch: MicroBatch | None = BATCH) -> list[int | None]:
    """The numbers of writes to these paths, one after the other."""
    runtime = Runtime(FakeClock(), opened, NOBODY, NOBODY, NOBODY)
    found = []
    for path in paths:
        at = Target.at(Place(path, {}, {}, {}, None, batch))
        with turn_of(runtime, at, "append") as turn:
            found.append(None if turn is None else turn.ordinal)
    return found


def test_a_table_has_one_count_by_whatever_path_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    local = [str(tmp_path / name) for name in ("real", "link", "other", "real")]
    assert ordinals(*local) == [0, 1, 0, 2]
    assert ordinals("hdfs://nn/t", "hdfs://nn:8020/t", "hdfs:/t", "hdfs://nn/u") == [0, 1, 2, 0]


@pytest.mark.parametrize("batch", [BATCH, None])
def test_only_a_batch_that_is_in_its_table_has_its_entry_compared(
    tmp_path: Path, batch: MicroBatch | None
) -> None:
    at = Target.at(Place(str(tmp_path), {}, {}, {}, None, batch))
    compared: list[Target] = []
    handlers = Handlers(NOBODY, Runtime(FakeClock(), opened, NOBODY, NOBODY, NOBODY))
    handlers._entries = cast(Any, SimpleNamespace(catch_up=compared.append))
    answer = handlers._committing(lambda *_: None)(at, NOBODY)
    assert answer.instant is None
    assert compared == ([] if batch is None else [at])


def test_a_write_outside_of_a_batch_has_no_number(tmp_path: Path) -> None:
    assert ordinals(str(tmp_path), batch=None) == [None]


@pytest.mark.parametrize(
    ("mode", "options", "name"),
    [
        (SaveMode.APPEND, {}, "append"),
        (SaveMode.OVERWRITE, {}, "overwrite"),
        (SaveMode.APPEND, {OPERATION: "bulk_insert"}, "append"),
        (SaveMode.APPEND, {OPERATION.upper(): "DELETE"}, "append by delete"),
        (SaveMode.APPEND, {OPERATION: "delete_partition"}, "append by delete_partition"),
    ],
)
def test_a_save_is_called_by_its_mode_and_by_an_operation_that_removes_rows(
    mode: SaveMode, options: dict[str, str], name: str
) -> None:
    assert saved(mode, options) == name


def test_an_insert_that_made_its_table_has_no_name() -> None:
    """``saveAsTable`` makes the table, and appends to it or replaces it at a repetition."""
    names = {each: inserted(each) for each in Overwrite}
    assert names.pop(Overwrite.NEW) == ""
    assert names.pop(Overwrite.NONE) == "insert"
    assert set(names.values()) == {"insert overwrite"}
