"""A storage that fails as nobody foresaw: what it raises proves nothing, so nothing is deleted."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from pyhudi.errors import CommitUnknown, ConfigError, HudiError, StorageError
from pyhudi.storage.base import Storage
from pyhudi.storage.faults import FaultyStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.transactions.phases import Phase
from tests.transactions.world import World, finish, work


class Unheard(Exception):
    """An error of a class that pyhudi has never heard of."""


class Unforeseen(FaultyStorage):
    """A backend that forgets to say what became of the put of a completed file.

    It raises ``error`` there, ``times`` times, once the put has ``landed`` or without it; and, if
    ``blind``, also where anybody looks for that file.
    """

    def __init__(
        self, inner: Storage, error: Exception, landed: bool, blind: bool = False, times: int = 3
    ) -> None:
        super().__init__(inner)
        self.error, self.landed, self.blind, self.left = error, landed, blind, times

    def put_if_absent(self, path: str, data: bytes) -> None:
        if not is_completed(path) or not self.left:
            super().put_if_absent(path, data)
            return
        self.left -= 1
        if self.landed and not self._inner.exists(path):
            super().put_if_absent(path, data)
        raise self.error

    def exists(self, path: str) -> bool:
        if self.blind and is_completed(path):
            raise self.error
        return super().exists(path)


def is_completed(path: str) -> bool:
    return path.endswith(".commit")


ERRORS: dict[str, Exception] = {
    "OSError": OSError("the device is confused"),
    "OSError with errno": OSError(5, os.strerror(5)),
    "TimeoutError": TimeoutError("timed out"),
    "ConnectionResetError": ConnectionResetError("by the peer"),
    "KeyError": KeyError("ETag"),
    "RuntimeError": RuntimeError("cannot schedule new futures after shutdown"),
    "botocore without a code": ClientError({}, "PutObject"),
    "botocore of its own": BotoCoreError(),
    "StorageError that says nothing": StorageError("It did not work.", path="p"),
    "another error of ours": ConfigError("There are no credentials."),
    "unheard of": Unheard("?"),
}


@pytest.fixture(params=ERRORS, ids=str)
def error(request: pytest.FixtureRequest) -> Exception:
    return ERRORS[request.param]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def test_an_unforeseen_error_of_a_put_that_had_no_effect_leaves_the_outcome_unknown(
    world: World, error: Exception
) -> None:
    transaction = world.begin(Unforeseen(world.memory, error, landed=False))
    written = work(transaction, {"k": "1"})

    with pytest.raises(CommitUnknown, match="Nothing was deleted") as unknown:
        finish(transaction, written)
    transaction.abort()

    assert unknown.value.__cause__ is error
    assert unknown.value.instant == transaction.instant
    assert transaction.phase is Phase.UNKNOWN
    assert world.data_files() == {written.stats[0].path}
    world.upsert({"j": "2"})
    assert world.rows() == {"j": "2"}
    assert world.leftovers() == []


def test_an_unforeseen_error_of_a_put_that_landed_leaves_the_outcome_unknown(
    world: World, error: Exception
) -> None:
    transaction = world.begin(Unforeseen(world.memory, error, landed=True, blind=True))
    written = work(transaction, {"k": "1"})

    with pytest.raises(CommitUnknown, match="Nothing was deleted") as unknown:
        finish(transaction, written)
    transaction.abort()

    assert unknown.value.path is not None
    assert world.memory.exists(unknown.value.path)
    assert transaction.phase is Phase.UNKNOWN
    world.upsert({"j": "2"})
    assert world.rows() == {"k": "1", "j": "2"}
    assert world.leftovers() == []


@pytest.mark.parametrize("landed", [True, False])
def test_an_unforeseen_error_that_does_not_come_again_is_settled_by_a_look(
    world: World, error: Exception, landed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        world.upsert({"k": "1"}, Unforeseen(world.memory, error, landed, times=1))

    assert f"no answer to the final put (try 1): {error}" in caplog.text
    assert world.rows() == {"k": "1"}
    assert world.leftovers() == []


@pytest.mark.parametrize("landed", [True, False])
def test_only_an_error_that_says_so_is_a_known_failure(world: World, landed: bool) -> None:
    """The same error twice: what differs is the field that a backend sets on purpose."""
    refused = StorageError("No.", had_no_effect=True)

    with pytest.raises(StorageError, match="No"):
        world.upsert({"k": "1"}, Unforeseen(world.memory, refused, landed=False))

    assert world.leftovers() == []
    forgot = StorageError("No.")
    with pytest.raises(CommitUnknown):
        world.upsert({"k": "1"}, Unforeseen(world.memory, forgot, landed, blind=True))
    assert len(world.data_files()) == 1


def test_no_error_is_a_known_failure_unless_it_is_told_to_be() -> None:
    assert not StorageError("It did not work.").had_no_effect
    assert not hasattr(HudiError("It did not work."), "had_no_effect")


def test_what_a_storage_raises_for_a_taken_name_is_a_known_failure() -> None:
    storage = MemoryStorage()
    storage.put_if_absent("a", b"")

    for path in ("a", "../a"):
        with pytest.raises(StorageError) as refused:
            storage.put_if_absent(path, b"")
        assert refused.value.had_no_effect
