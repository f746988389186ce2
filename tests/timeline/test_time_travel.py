from __future__ import annotations

import pytest

from pyhudi.errors import HistoryExpired
from pyhudi.format.instants import Action, Instant, InstantTime, State, format_time, parse_time
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.active import timeline_of
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.table import Table, open_table
from pyhudi.timeline.time_travel import check_history
from pyhudi.timeline.view import list_view
from tests.golden_tables import BY_NAME
from tests.timeline.bare import in_memory

ARCHIVED = ["h0150_v6-cow_clean_archive", "h120_v6-cow_clean_archive", "h120_v9-cow_clean_archive"]


def table_of(name: str) -> Table:
    return open_table(in_memory(BY_NAME[name]))


def just_before(time: InstantTime) -> InstantTime:
    return format_time(parse_time(time, True) - 1, True)


def refusal(table: Table, as_of: InstantTime) -> HistoryExpired:
    with pytest.raises(HistoryExpired) as refused:
        check_history(table, table.timeline(), as_of)
    assert refused.value.facts["asked"] == as_of
    return refused.value


@pytest.mark.parametrize("name", ARCHIVED)
def test_an_instant_that_is_archived_is_refused_by_its_name(name: str) -> None:
    table = table_of(name)
    commits = [
        e.instant.time
        for e in archived_instants(table.storage, table.config)
        if e.instant.action is Action.COMMIT
    ]
    first = table.timeline().first_time

    error = refusal(table, commits[1])
    assert f"commit {commits[1]}, the newest at that time, is archived" in str(error)
    assert error.facts["earliest"] == first
    assert f"commit {commits[0]}," in str(refusal(table, just_before(commits[1])))
    assert f"its first commit is {commits[0]}" in str(refusal(table, just_before(commits[0])))


@pytest.mark.parametrize("name", ARCHIVED)
def test_a_commit_whose_files_were_cleaned_in_part_is_refused(name: str) -> None:
    """Hudi would answer with the groups that still have a slice so old: a mixture."""
    table = table_of(name)
    timeline = table.timeline()
    error = refusal(table, just_before(earliest_kept(table)))

    assert error.facts["earliest"] == earliest_kept(table)
    assert "cleaned" in str(error)
    # And rightly: of the groups that live today, some have no slice left from then.
    view = list_view(table.storage, timeline)
    groups = {(f.partition_path, f.file_id) for f in view.latest()}
    then = {(f.partition_path, f.file_id) for f in view.latest(just_before(earliest_kept(table)))}
    assert then <= groups


def earliest_kept(table: Table) -> InstantTime:
    newest = table.timeline().commits[-1].time
    with pytest.raises(HistoryExpired) as refused:
        check_history(table, table.timeline(), table.timeline().commits[0].time)
    earliest = InstantTime(str(refused.value.facts["earliest"]))
    assert earliest <= newest
    return earliest


@pytest.mark.parametrize("name", ARCHIVED)
def test_what_was_kept_can_be_read(name: str) -> None:
    table = table_of(name)
    for commit in table.timeline().commits:
        if commit.time >= earliest_kept(table):
            check_history(table, table.timeline(), commit.time)


def test_a_table_without_commits_has_no_history_to_expire() -> None:
    storage = MemoryStorage("memory:/no-commits")
    properties = ".hoodie/hoodie.properties"
    storage.put_if_absent(properties, BY_NAME["h120_v8-cow_np"].files()[properties])
    table = open_table(storage)

    check_history(table, table.timeline(), InstantTime("20000101000000000"))


def test_before_the_first_commit_of_a_whole_timeline_there_was_nothing() -> None:
    table = table_of("h120_v8-cow_np")
    first = table.timeline().commits[0].time

    assert f"its first commit is {first}" in str(refusal(table, just_before(first)))
    check_history(table, table.timeline(), first)


def test_a_savepoint_can_be_read_though_the_timeline_begins_later() -> None:
    table = table_of("h120_v8-cow_np")
    folder = table.config.timeline_folder
    saved = InstantTime("20200101000000000")
    for suffix in ("commit", "savepoint"):
        table.storage.put_if_absent(f"{folder}/{saved}_20200101000000001.{suffix}", b"")
    timeline = timeline_of(table.storage.list(folder), 2, folder)
    assert {i.action for i in timeline.at(saved)} == {Action.COMMIT, Action.SAVEPOINT}
    assert all(i.state is State.COMPLETED for i in timeline.at(saved))

    check_history(table, timeline, saved)
    with pytest.raises(HistoryExpired):
        check_history(table, timeline, format_time(parse_time(saved, True) + 1, True))


# -- a clean that a crash left empty or half


def torn_clean(name: str, torn: bytes, plan: bool) -> tuple[Table, InstantTime]:
    """A golden table whose last clean is torn, and the commit that it kept the first."""
    table = table_of(name)
    timeline = table.timeline()
    kept = earliest_kept(table)
    for clean in (i for i in timeline.completed if i.action is Action.CLEAN):
        table.storage.replace(timeline.file_of(clean), torn)
        if not plan:
            path = timeline.file_of(Instant(clean.time, Action.CLEAN, State.REQUESTED))
            table.storage.replace(path, torn)
    return table, kept


@pytest.mark.parametrize("torn", [b"", b"Obj\x01"], ids=["empty", "cut off"])
@pytest.mark.parametrize("name", ARCHIVED)
def test_a_torn_clean_is_told_by_its_plan(name: str, torn: bytes) -> None:
    table, kept = torn_clean(name, torn, plan=True)

    assert refusal(table, just_before(kept)).facts["earliest"] == kept
    for commit in table.timeline().commits:
        if commit.time >= kept:
            check_history(table, table.timeline(), commit.time)


@pytest.mark.parametrize("torn", [b"", b"Obj\x01"], ids=["empty", "cut off"])
@pytest.mark.parametrize("name", ARCHIVED)
def test_a_torn_clean_without_a_plan_forbids_what_it_may_have_taken_alone(
    name: str, torn: bytes
) -> None:
    table, _ = torn_clean(name, torn, plan=False)
    timeline = table.timeline()
    clean = max(i.time for i in timeline.completed if i.action is Action.CLEAN)
    before = [c.time for c in timeline.commits if c.time < clean]

    error = refusal(table, just_before(before[-1]))
    assert error.facts["earliest"] == before[-1]
    path = timeline.file_of(next(i for i in timeline.at(clean) if i.action is Action.CLEAN))
    assert path in str(error)
    for commit in timeline.commits:
        if commit.time >= before[-1]:
            check_history(table, timeline, commit.time)
