from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import TableCorrupt
from pyhudi.format.log_blocks import (
    MAGIC,
    BlockType,
    HeaderKey,
    InMemory,
    LogBlock,
    avro_records,
    find_blocks,
    read_blocks,
    render_block,
)
from tests import golden_tables

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
blocks = st.builds(
    LogBlock,
    st.sampled_from(BlockType),
    st.dictionaries(st.sampled_from(HeaderKey).map(int), texts, max_size=4),
    st.binary(max_size=30),
)


def render(values: list[LogBlock]) -> bytes:
    return b"".join(render_block(b.block_type, b.header, b.content) for b in values)


@given(st.lists(blocks, max_size=4))
def test_reading_rendered_blocks_gives_them_back(values: list[LogBlock]) -> None:
    assert list(read_blocks(render(values))) == values


WHOLE = LogBlock(BlockType.AVRO_DATA, {HeaderKey.INSTANT_TIME: "T"}, b"content")


@pytest.mark.parametrize("cut", range(1, len(render([WHOLE]))))
def test_a_block_torn_by_a_crash_is_passed_over_and_the_next_is_read(cut: int) -> None:
    torn = render([WHOLE])[:cut]

    assert list(read_blocks(torn)) == []
    assert list(read_blocks(torn + render([WHOLE]))) == [WHOLE]


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("cut", [1, 5, 14, len(render([WHOLE])) - 1])
def test_a_log_of_one_write_is_whole_or_corrupt(before: int, after: int, cut: int) -> None:
    whole = render([WHOLE])
    left = InMemory(whole * (before + after))
    assert len(list(find_blocks(left, "f"))) == before + after

    torn = InMemory(whole * before + whole[:cut] + whole * after)
    assert len(list(find_blocks(torn))) == before + after
    with pytest.raises(TableCorrupt, match=f"from {before * len(whole)} on"):
        list(find_blocks(torn, "f"))


def test_a_block_of_another_log_version_is_passed_over() -> None:
    data = bytearray(render([WHOLE]))
    data[len(MAGIC) + 8 + 3] = 9

    assert list(read_blocks(bytes(data))) == []


def test_every_log_file_of_the_golden_tables_is_made_of_whole_blocks() -> None:
    kinds = set()
    for table in golden_tables.ALL:
        for path, data in table.files().items():
            if ".log." in path and data and not path.startswith(".hoodie/"):
                found = list(read_blocks(data))
                assert render(found) == data, (table.name, path)
                kinds |= {block.block_type for block in found}
    assert kinds >= {BlockType.AVRO_DATA, BlockType.DELETE, BlockType.CDC_DATA}


def test_records_that_are_not_there_name_the_file() -> None:
    for content in (b"", b"\0\0\0\3\0\0\0\2\0\0\0\1x", b"\0\0\0\3\0\0\0\1\0\0\0\7x"):
        with pytest.raises(TableCorrupt, match="announced records"):
            list(avro_records(LogBlock(BlockType.AVRO_DATA, {}, content), "log"))
