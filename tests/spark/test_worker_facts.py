"""What a worker knows of its error reaches the caller, whichever way the rows go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from pyhudi.errors import InvalidRecord, TableCorrupt
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.view import VIEWS
from tests.spark.tables import HudiTable, Lake, Row

pytestmark = [pytest.mark.spark, pytest.mark.every_line]

DDL = "id long, tags array<string>, ts long, dt string"
GOOD: list[Row] = [(n, ["x"], 1, f"2024-01-0{n + 1}") for n in range(3)]
FAULTS: dict[str, tuple[Row, str]] = {
    "null key": ((None, ["x"], 2, "2024-01-01"), "id"),
    "null element": ((1, [None], 2, "2024-01-02"), "tags"),
}


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_row_that_cannot_be_written_names_its_column(
    lake: Lake, way: str, operation: str, fault: str
) -> None:
    table = lake.table(ddl=DDL)
    table.write(GOOD, "bulk_insert")
    row, column = FAULTS[fault]

    with pytest.raises(InvalidRecord, match=f"column '{column}'") as told:
        table.write([*GOOD, row], operation)

    assert told.value.column == column
    assert isinstance(told.value, AnalysisException)
    assert "pyhudi-facts" not in str(told.value)
    assert len(table.df().collect()) == 3


DAMAGES: dict[str, Callable[[Path], object]] = {
    "lost": Path.unlink,
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:100]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_that_a_worker_finds_is_told_with_the_rule_that_it_breaks(
    lake: Lake, way: str, damage: str
) -> None:
    table: HudiTable = lake.table(ddl=DDL)
    table.write(GOOD, "bulk_insert")
    VIEWS.forget(LocalStorage(table.path))
    assert table.df().count() == 3
    lost = Path(table.path) / table.base_files()[0]
    DAMAGES[damage](lost)

    with pytest.raises(TableCorrupt) as told:
        table.write(GOOD, "upsert")

    assert told.value.path is not None
    assert told.value.path.endswith(lost.name)
    assert told.value.rule is not None
    assert "pyhudi-facts" not in str(told.value)
