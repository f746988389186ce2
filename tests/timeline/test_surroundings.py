"""What an error says of a path that holds no table, or lies inside one."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyhudi
from pyhudi.errors import ConfigError, HudiError, StorageError, TableNotFound
from pyhudi.storage.base import Storage
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.surroundings import refuse_inside_table
from tests.golden_tables import BY_NAME


def said(path: Path | str) -> str:
    """What opening the table at ``path`` says."""
    with pytest.raises(TableNotFound) as refused:
        pyhudi.Table(str(path))
    return str(refused.value)


def put(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")


@pytest.mark.parametrize(
    ("file", "what"),
    [
        ("part-0.parquet", "It holds Parquet files: read them with spark.read.parquet"),
        ("day=1/part-0.parquet", "It holds Parquet files"),
        ("_delta_log/00.json", "It holds a Delta table"),
        ("metadata/v1.metadata.json", "an Iceberg table"),
        ("_spark_metadata/0", "file sink"),
        ("notes.txt", "It holds other files"),
    ],
)
def test_a_folder_of_something_else_is_named(file: str, what: str, tmp_path: Path) -> None:
    put(tmp_path / file)
    assert what in said(tmp_path)


def test_an_empty_or_absent_folder_is_empty(tmp_path: Path) -> None:
    assert "Nothing is there" in said(tmp_path)
    assert "Nothing is there" in said(tmp_path / "typo")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    put(tmp_path / "file")
    assert "Check the path" in said(tmp_path / "file")
    put(tmp_path / "a.parquet")
    assert "a file is no table: name the table's folder" in said(tmp_path / "a.parquet")
    put(tmp_path / "folder.parquet" / "a.parquet")
    assert "It holds Parquet files" in said(tmp_path / "folder.parquet")


def test_a_folder_of_the_table_itself_names_the_table(tmp_path: Path) -> None:
    root = BY_NAME["h120_v9-cow_part"].unzip(tmp_path)
    for folder in (".hoodie", ".hoodie/timeline"):
        assert f"inside the table at {root}: load that" in said(root / folder)


def test_a_partition_names_its_table(tmp_path: Path) -> None:
    root = BY_NAME["h120_v9-cow_part"].unzip(tmp_path)
    partition = pyhudi.Table(str(root)).partitions()[0].partition
    assert f"It is a partition of the table at {root}:" in said(root / partition)
    deep = root / partition / ".hoodie_partition_metadata"
    deep.write_bytes(deep.read_bytes().replace(b"partitionDepth=1", b"partitionDepth=99"))
    assert "It is the folder of a partition, but no table is above it" in said(root / partition)


def test_a_folder_of_tables_names_one(tmp_path: Path) -> None:
    root = BY_NAME["h120_v9-cow_part"].unzip(tmp_path)
    assert f"There is one at {root}." in said(root.parent)


def test_a_pattern_is_no_table(tmp_path: Path) -> None:
    BY_NAME["h120_v9-cow_part"].unzip(tmp_path)
    assert "A path with * or ? is no table" in said(tmp_path / "*")


def test_a_new_table_inside_another_is_refused(tmp_path: Path) -> None:
    root = str(BY_NAME["h120_v9-cow_part"].unzip(tmp_path))
    for inside in (f"{root}/new", f"{root}/a/b/c"):
        with pytest.raises(ConfigError, match=f"lies inside the table at {root}:"):
            refuse_inside_table(inside, LocalStorage)
    refuse_inside_table(root, LocalStorage)
    refuse_inside_table(f"{tmp_path}/beside", LocalStorage)


def test_folders_above_that_may_not_be_looked_at_hold_no_table() -> None:
    asked: list[str] = []

    def closed(root: str) -> Storage:
        asked.append(root)
        raise StorageError("access denied", path=root)

    refuse_inside_table("s3a://lake/a/b/t", closed)
    assert asked == ["s3a://lake/a/b", "s3a://lake/a", "s3a://lake"]


def test_what_cannot_be_listed_is_still_no_table(tmp_path: Path) -> None:
    class Closed(LocalStorage):
        def list_folders(self, folder: str) -> list[str]:
            raise StorageError("access denied", path=folder)

    from pyhudi.timeline.table import open_table

    with pytest.raises(HudiError, match="Check the path, or write to it first"):
        open_table(Closed(str(tmp_path)))
