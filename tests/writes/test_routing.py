from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.writes.placement.task_routes import (
    balanced,
    routes,
    spark_hash,
    task_count,
)


@pytest.mark.parametrize(
    ("value", "hashed"), [(0, 933211791), (1, -559580957), (42, 29417773), (-1, -1604776387)]
)
def test_the_hash_is_sparks_own(value: int, hashed: int) -> None:
    """As ``SELECT hash(CAST(v AS INT))`` answers."""
    assert spark_hash(value) == hashed


@pytest.mark.parametrize("tasks", [1, 2, 7, 200])
def test_each_task_has_a_value_that_spark_sends_to_it(tasks: int) -> None:
    found = routes(tasks)
    assert [spark_hash(value) % tasks for value in found] == list(range(tasks))


@given(
    sizes=st.dictionaries(st.integers(0, 99), st.integers(0, 1_000), min_size=1),
    tasks=st.integers(1, 9),
)
def test_every_group_has_one_task_and_no_task_has_much_more_than_its_part(
    sizes: dict[int, int], tasks: int
) -> None:
    placed = balanced(sizes, tasks)

    assert set(placed) == set(sizes)
    loads = [sum(sizes[o] for o, task in placed.items() if task == t) for t in range(tasks)]
    assert max(loads) <= sum(sizes.values()) / tasks + max(sizes.values())
    assert balanced(dict(reversed(sizes.items())), tasks) == placed


def test_the_largest_groups_are_placed_first() -> None:
    placed = balanced({0: 1, 1: 1, 2: 2}, 2)
    assert placed[0] == placed[1] != placed[2]


def test_tasks_are_bounded_by_groups_and_by_cores() -> None:
    assert [task_count(n, 4) for n in (0, 1, 5, 12, 500)] == [1, 1, 5, 12, 12]
