from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from pyhudi.format.filenames import FileId
from pyhudi.format.instants import InstantTime
from pyhudi.slices.files import BaseFile
from pyhudi.writes.placement.assign import MAX_SLOTS, Assignment, Sizing, assign

T = InstantTime("20240101000000000")
#: ten rows fill a file, files below half of that are small
ALONE = Sizing(1_000, 500, 100, fill_small_files=True)
BESIDE = Sizing(1_000, 500, 100, fill_small_files=False)


def file(group: str, size: int, partition: str = "p") -> BaseFile:
    return BaseFile(partition, f"{group}_0-0-0_{T}.parquet", FileId(group), T, size)


def run(
    files: Sequence[BaseFile],
    updates: Mapping[int, int],
    inserts: Mapping[str, int],
    sizing: Sizing = ALONE,
) -> Assignment:
    numbers = itertools.count()
    return assign(files, updates, inserts, sizing, lambda p: f"new{next(numbers)}")


def test_updates_go_to_their_own_groups_and_nowhere_else() -> None:
    files = [file("a", 900), file("b", 100)]
    found = run(files, {0: 4}, {})

    assert {o: (g.file_id, g.base_file, g.base_instant) for o, g in found.groups.items()} == {
        0: ("a", files[0].path, T)
    }
    assert found.slots == {}
    assert found.rows_of == {0: 4}
    assert found.bytes_of == {0: 900 + 4 * 100}


def test_new_rows_fill_the_smallest_files_first() -> None:
    files = [file("a", 400), file("b", 900), file("c", 300)]
    found = run(files, {}, {"p": 12})

    # c has room for 7, a for the rest; b is no small file.
    assert found.rows_of == {2: 7, 0: 5}
    assert {g.file_id for g in found.groups.values()} == {"a", "c"}
    assert set(found.slots["p"]) == {0, 2}


def test_what_finds_no_room_opens_new_groups_of_equal_size() -> None:
    found = run([file("a", 400)], {}, {"p": 6 + 25})

    new = [o for o in found.groups if o > 0]
    assert [found.groups[o].file_id for o in new] == ["new0", "new1", "new2"]
    assert all(found.groups[o].base_file is None for o in new)
    assert found.rows_of == {0: 6, 1: 9, 2: 9, 3: 9}
    assert found.bytes_of[1] == 900


def test_beside_other_writers_small_files_are_left_alone() -> None:
    files = [file("a", 100), file("b", 100)]
    assert {g.file_id for g in run(files, {}, {"p": 3}, BESIDE).groups.values()} == {"new0"}


def test_beside_other_writers_new_rows_join_groups_that_are_updated_anyway() -> None:
    files = [file("a", 100), file("b", 600)]
    found = run(files, {1: 2}, {"p": 6}, BESIDE)

    assert {o: g.file_id for o, g in found.groups.items()} == {1: "b", 2: "new0"}
    assert found.rows_of == {1: 2 + 4, 2: 2}


def test_partitions_do_not_share_groups() -> None:
    files = [file("a", 100, "p"), file("b", 100, "q")]
    found = run(files, {}, {"p": 1, "q": 1, "r": 1})

    assert {p: [found.groups[o].partition_path for o in s] for p, s in found.slots.items()} == {
        "p": ["p"],
        "q": ["q"],
        "r": ["r"],
    }


def test_no_rows_need_no_group() -> None:
    assert run([file("a", 100)], {}, {"p": 0}).groups == {}


def test_equal_shares_take_one_slot_each() -> None:
    found = run([], {}, {"p": 10 * 5_000})
    assert len(found.slots["p"]) == 5_000


def test_unequal_shares_are_respected_and_slots_are_bounded() -> None:
    found = run([file("a", 700)], {}, {"p": 3 + 10 * 2_000}, BESIDE)
    assert len(set(found.slots["p"])) == 2_001 or len(found.groups) >= 2_000
    files = [file(f"g{n}", 10 * (n % 50)) for n in range(3_000)]
    found = run(files, {}, {"p": 20_000})
    assert len(found.slots["p"]) <= MAX_SLOTS + 3_000


@given(
    sizes=st.lists(st.integers(0, 1_500), max_size=8),
    data=st.data(),
    rows=st.integers(0, 200),
    alone=st.booleans(),
)
def test_every_new_row_has_a_group_with_room(
    sizes: list[int], data: st.DataObject, rows: int, alone: bool
) -> None:
    files = [file(f"g{n}", size) for n, size in enumerate(sizes)]
    updated = data.draw(st.sets(st.sampled_from(range(len(files))))) if files else set()
    sizing = ALONE if alone else BESIDE
    found = run(files, dict.fromkeys(updated, 1), {"p": rows}, sizing)

    slots = Counter(found.slots.get("p", ()))
    assert bool(slots) == bool(rows)
    assert set(slots) | updated == set(found.groups)
    assert all(found.groups[o].ordinal == o for o in found.groups)
    placed = {o: found.rows_of[o] - (o in updated) for o in slots}
    assert sum(placed.values()) in range(rows, rows + len(slots) + 1)
    for ordinal, count in placed.items():
        base = files[ordinal].size_bytes if ordinal < len(files) else 0
        assert count >= 1
        assert base + count * 100 <= 1_000
        # A hash over the slots gives each group its share, to one part in 64 of the largest.
        share = slots[ordinal] / sum(slots.values())
        assert abs(share - count / sum(placed.values())) <= len(slots) / 64
