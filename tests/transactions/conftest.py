"""Tables in memory, one for each version, whose writers end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.transactions.pessimists import hand, set_mark, upsert
from tests.transactions.world import VERSIONS, World


@pytest.fixture
def new_world() -> Iterator[Callable[..., World]]:
    """Makes tables; all their writers' threads end with the test."""
    made: list[World] = []

    def make(*args: object, **more: object) -> World:
        made.append(World(*args, **more))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def world(request: pytest.FixtureRequest, new_world: Callable[..., World]) -> World:
    """An empty table of each version in turn."""
    return new_world(request.param)


@pytest.fixture
def shared(world: World) -> World:
    """A pessimistic table of each version with one group, which holds k and j."""
    set_mark(world, True)
    with hand(world) as groups:
        upsert(world, {"k": "0", "j": "0"}, groups)
    return world
