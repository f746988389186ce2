from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import TableCorrupt
from pyhudi.format import partition_metadata
from tests import golden_tables


@given(st.integers(10**16, 10**17 - 1).map(str), st.integers(0, 9))
def test_parsing_rendered_metadata_gives_it_back(instant: str, depth: int) -> None:
    data = partition_metadata.render(instant, depth)

    assert partition_metadata.parse(data, "p") == (instant, depth)
    assert data.startswith(b"#partition metadata\n")


def test_depth_counts_the_levels_of_a_partition() -> None:
    assert [partition_metadata.depth_of(p) for p in ("", "a", "a=1/b=2")] == [0, 1, 2]


def test_the_metadata_of_every_golden_partition_is_read() -> None:
    read = 0
    for table in golden_tables.ALL:
        for path, data in table.files().items():
            folder, _, name = path.rpartition("/")
            if name == partition_metadata.FILE_NAME and ".hoodie/metadata" not in path:
                _, depth = partition_metadata.parse(data, path)
                assert depth == partition_metadata.depth_of(folder), (table.name, path)
                read += 1
    assert read > 100


@pytest.mark.parametrize("data", [b"", b"commitTime=1\n", b"partitionDepth=1\n",
                                  b"commitTime=1\npartitionDepth=one\n"])  # fmt: skip
def test_incomplete_metadata_names_path_and_rule(data: bytes) -> None:
    with pytest.raises(TableCorrupt, match="commitTime and partitionDepth") as error:
        partition_metadata.parse(data, "dt=1/.hoodie_partition_metadata")
    assert error.value.facts["path"] == "dt=1/.hoodie_partition_metadata"
