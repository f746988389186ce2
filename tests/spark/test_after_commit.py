"""What happens around a write's commit: callbacks, the timeline as others follow it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from unittest.mock import patch

import pytest

import pyhudi
from pyhudi.application.commit_notice import CommitNotice
from pyhudi.errors import SetupError
from pyhudi.format.instants import Action
from pyhudi.services.scheduling import ServicePlanners
from pyhudi.spark import session
from tests.services.test_scheduling import CleanAll
from tests.spark.tables import Lake, rows_of

pytestmark = pytest.mark.spark


@pytest.fixture
def told(lake: Lake) -> Iterator[list[CommitNotice]]:
    """What a callback of the session is told during the test."""
    found: list[CommitNotice] = []
    stop = pyhudi.on_commit(lake.spark, found.append)
    yield found
    stop()


def test_every_commit_is_told_once_with_its_numbers(lake: Lake, told: list[CommitNotice]) -> None:
    table = lake.table()
    table.write(rows_of(0, 3, "a"))
    table.write(rows_of(2, 4, "b"))

    assert [notice.commit for notice in told] == pyhudi.history(table.path)
    assert {notice.path for notice in told} == {table.path}
    assert (told[1].commit.rows_inserted, told[1].commit.rows_updated) == (1, 1)


def test_a_write_that_fails_or_does_nothing_is_not_told(
    lake: Lake, told: list[CommitNotice]
) -> None:
    table = lake.table()
    table.write(rows_of(0, 3, "a"))
    told.clear()
    table.write(rows_of(0, 3, "b"), mode="ignore")
    with pytest.raises(Exception, match="already"):
        table.write(rows_of(0, 3, "b"), mode="errorifexists")
    assert told == []


def test_a_callback_that_raises_leaves_the_commit_as_it_is(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    stop = pyhudi.on_commit(lake.spark, lambda notice: 1 / 0)
    try:
        table = lake.table()
        with caplog.at_level(logging.WARNING):
            table.write(rows_of(0, 3, "a"))
    finally:
        stop()
    assert "ZeroDivisionError" in caplog.text
    assert table.df().count() == 3


def test_a_session_that_is_not_attached_has_no_callbacks(lake: Lake) -> None:
    with patch.dict(session._attached, clear=True), pytest.raises(SetupError, match="attach"):
        pyhudi.on_commit(lake.spark, lambda notice: None)


def test_the_last_commit_is_known_whichever_way_it_came(lake: Lake, name: str) -> None:
    table = lake.table()
    table.write(rows_of(0, 3, "a"))
    table.write(rows_of(2, 4, "b"))
    by_frame = pyhudi.last_commit(lake.spark)
    assert by_frame is not None
    assert (by_frame.path, by_frame.entry) == (table.path, pyhudi.history(table.path)[-1])
    assert by_frame.files == pyhudi.Table(table.path).commit(by_frame.entry.instant).files

    lake.spark.sql(f"create table {name} using pyhudi location '{table.path}'")
    lake.spark.sql(f"delete from {name} where id = 1")
    lake.spark.sql(f"update {name} set name = 'never' where id = 77")
    by_sql = pyhudi.last_commit(lake.spark)
    assert by_sql is not None
    assert (by_sql.entry.operation, by_sql.entry.rows_deleted) == ("delete", 1)
    assert by_sql.conflicts_retried == 0
    assert by_sql.lock_wait_ms >= 0
    for shown in (repr(by_sql), by_sql._repr_html_()):
        assert by_sql.entry.instant in shown
        assert "lock wait" in shown


@pytest.mark.parametrize("enabled", [True, False])
def test_registered_services_are_planned_unless_they_are_turned_off(
    lake: Lake, enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    planners = ServicePlanners()
    planners.register(CleanAll())
    monkeypatch.setattr(session.runtime_of(lake.spark).services, "_planners", planners._planners)
    table = lake.table()
    table.write(rows_of(0, 3, "a"), hoodie__table__services__enabled=str(enabled).lower())
    planned = [e for e in pyhudi.history(table.path) if e.action is Action.CLEAN]
    assert len(planned) == int(enabled)


def test_a_write_is_followed_from_the_checkpoint_before_it(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 3, "a"))
    first = pyhudi.commits(table.path)
    table.write(rows_of(0, 1, "b"))
    (new,) = pyhudi.commits(table.path, first.checkpoint).commits
    assert new == pyhudi.history(table.path)[-1]
