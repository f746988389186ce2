"""The Hive Metastore lock on a real metastore: what it shows there, lost replies, silence."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from pymetastore.hive_metastore import ttypes

from pyhudi.clock import SystemClock
from pyhudi.errors import LockTimeout, StorageError, WriterFenced
from pyhudi.locks.base import LockOwner
from pyhudi.locks.hive_metastore import PAUSE_MS, HiveLock, HivePlace, _seconds
from pyhudi.locks.leased import LeasedLock
from tests.servers.cutting_proxy import Cut, cutting_proxy
from tests.servers.hive_metastore import HiveMetastore, hive_metastore
from tests.servers.process import free_port

ANN = LockOwner("20240101000000001", "ann.example", 11, "nightly load")
BOB = LockOwner("20240101000000002", "bob.example", 22)

_numbers = itertools.count()


@pytest.fixture
def place(metastore: HiveMetastore) -> HivePlace:
    return HivePlace("Lake", f"Rides_{next(_numbers)}", (metastore.uri,))


def handle(place: HivePlace) -> LeasedLock:
    return LeasedLock(HiveLock(place), SystemClock(), PAUSE_MS)


def shown(metastore: HiveMetastore, place: HivePlace) -> list[Any]:
    with metastore.client() as client:
        asked = ttypes.ShowLocksRequest(dbname=place.database, tablename=place.table)
        return list(client.show_locks(asked).locks)


def test_the_metastore_shows_an_exclusive_lock_on_the_table_and_who_has_it(
    metastore: HiveMetastore, place: HivePlace
) -> None:
    lock = handle(place)
    lock.acquire(10, ANN)

    (seen,) = shown(metastore, place)

    assert (seen.type, seen.state) == (ttypes.LockType.EXCLUSIVE, ttypes.LockState.ACQUIRED)
    assert (seen.dbname, seen.tablename, seen.partname) == (place.database, place.table, None)
    assert seen.hostname == "ann.example"
    assert ANN.instant in seen.agentInfo
    lock.release()
    assert shown(metastore, place) == []


def test_an_application_with_a_long_name_fits_the_metastores_tables(
    metastore: HiveMetastore, place: HivePlace
) -> None:
    lock = handle(place)
    lock.acquire(10, LockOwner("20240101000000001", "ann.example", 11, "n" * 500))

    assert len(shown(metastore, place)[0].agentInfo) == 128
    lock.release()


def test_another_programs_lock_is_respected_and_named(
    metastore: HiveMetastore, place: HivePlace
) -> None:
    component = ttypes.LockComponent(
        type=ttypes.LockType.EXCLUSIVE,
        level=ttypes.LockLevel.TABLE,
        dbname=place.database,
        tablename=place.table,
    )
    with metastore.client() as client:
        taken = client.lock(
            ttypes.LockRequest(component=[component], user="spark", hostname="etl-7")
        )
        with pytest.raises(LockTimeout, match=r"spark on etl-7") as refused:
            handle(place).acquire(0.5, ANN)
        assert "hive.txn.timeout (60 s there)" in str(refused.value)
        client.unlock(ttypes.UnlockRequest(lockid=taken.lockid))
    assert shown(metastore, place) == []


def test_whoever_gives_up_waiting_leaves_the_queue(
    metastore: HiveMetastore, place: HivePlace
) -> None:
    ann = handle(place)
    ann.acquire(10, ANN)
    with pytest.raises(LockTimeout, match="ann.example"):
        handle(place).acquire(0.3, BOB)

    assert len(shown(metastore, place)) == 1
    ann.release()


@pytest.mark.parametrize("cut", Cut)
def test_a_request_whose_connection_breaks_leaves_one_lock(
    metastore: HiveMetastore, cut: Cut
) -> None:
    table = f"rides_{next(_numbers)}"
    target = metastore.uri.removeprefix("thrift://")
    # A call's name stands before its arguments; check_lock and show_locks go by other names.
    with cutting_proxy(target, b"\x00\x00\x00\x04lock\x00", cut) as proxy:
        place = HivePlace("lake", table, (f"thrift://{proxy.address}",))
        lock = handle(place)

        lock.acquire(20, ANN)

        assert proxy.met == [cut]
        (seen,) = shown(metastore, place)
        assert seen.state == ttypes.LockState.ACQUIRED
        assert lock.check() > 0
        lock.release()
    assert shown(metastore, place) == []


def test_a_broken_connection_is_made_anew_where_the_call_may_be_repeated(
    metastore: HiveMetastore,
) -> None:
    target = metastore.uri.removeprefix("thrift://")
    with cutting_proxy(target, b"check_lock", Cut.REPLY) as proxy:
        lock = handle(HivePlace("lake", f"rides_{next(_numbers)}", (f"thrift://{proxy.address}",)))
        lock.acquire(10, ANN)

        assert lock.check() > 0
        assert proxy.met == [Cut.REPLY]
        lock.release()


def test_a_silent_holder_loses_its_lock_to_the_next(tmp_path: Path) -> None:
    """As after SIGKILL, or in a pause that is longer than the lease."""
    with hive_metastore(tmp_path, timeout_s=1) as metastore:
        place = HivePlace("lake", "rides", (metastore.uri,))
        paused, heir = handle(place), handle(place)
        paused.acquire(10, ANN)
        assert paused.check() <= 1

        heir.acquire(20, BOB)

        assert not paused.held()
        with pytest.raises(WriterFenced):
            paused.check()
        paused.release()
        assert heir.held() or heir.describe() is None


def test_the_next_metastore_is_asked_where_the_first_is_away(metastore: HiveMetastore) -> None:
    away = f"thrift://127.0.0.1:{free_port()}"
    lock = handle(HivePlace("lake", f"rides_{next(_numbers)}", (away, metastore.uri)))
    lock.acquire(10, ANN)
    assert lock.check() > 0
    lock.release()

    with pytest.raises(StorageError, match=r"hivemetastore\.uris") as refused:
        handle(HivePlace("lake", "rides", (away,))).acquire(1, ANN)
    assert away in str(refused.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("300s", 300), ("300", 300), ("1500ms", 1.5), ("5m", 300), ("2min", 120), ("1h", 3600)],
)
def test_hives_durations_are_understood(text: str, seconds: float) -> None:
    assert _seconds(text) == seconds
