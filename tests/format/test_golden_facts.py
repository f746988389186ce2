"""Facts of the timeline and the properties that docs/spec states, on tables of Apache Hudi's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from pyhudi.format import plans
from pyhudi.format.avro_file import is_avro
from pyhudi.format.commit_metadata import CommitMetadata, parse_commit
from pyhudi.format.instants import Action, Instant, State, parse_instant
from pyhudi.format.properties import parse_properties
from tests import golden_tables
from tests.format.test_golden_timelines import COMMITS, timeline
from tests.golden_tables import GoldenTable

PROPERTIES = ".hoodie/hoodie.properties"
META_COLUMN = "_hoodie_commit_time"


@cache
def instants(table: GoldenTable) -> list[tuple[Instant, bytes]]:
    """The files of a table's timeline and of its metadata table's."""
    found = []
    for name, layout, data in timeline(table):
        instant = parse_instant(name, layout)
        assert instant is not None
        found.append((instant, data))
    return found


def completed_commits() -> Iterator[tuple[GoldenTable, CommitMetadata]]:
    """Those of the tables themselves, without their metadata tables."""
    for table in golden_tables.ALL:
        layout, folder = (1, ".hoodie/") if table.version == 6 else (2, ".hoodie/timeline/")
        for path, data in table.files().items():
            instant = parse_instant(path.removeprefix(folder), layout)
            if instant and instant.action in COMMITS and instant.state is State.COMPLETED:
                yield table, parse_commit(data, path)


def contents(action: Action, state: State) -> list[bytes]:
    return [
        data
        for table in golden_tables.ALL
        for instant, data in instants(table)
        if (instant.action, instant.state) == (action, state) and data
    ]


def test_each_version_has_its_layout_and_its_timeline_folder() -> None:
    for table in golden_tables.ALL:
        values = parse_properties(table.files()[PROPERTIES], PROPERTIES)
        layout = {6: "1", 8: "2", 9: "2"}[table.version]
        commits = [path for path in table.files() if path.endswith(("commit", ".inflight"))]
        folders = {path.rpartition("/")[0] for path in commits}

        assert values["hoodie.timeline.layout.version"] == layout
        own = ".hoodie" if layout == "1" else ".hoodie/timeline"
        assert folders <= {own, f".hoodie/metadata/{own}", ".hoodie/.schema"}, table.name


def test_each_version_names_its_merge_rule_in_its_own_keys() -> None:
    keys = {
        "mode": "hoodie.record.merge.mode",
        "strategy": "hoodie.record.merge.strategy.id",
        "payload": "hoodie.compaction.payload.class",
        "ordering": "hoodie.table.ordering.fields",
        "precombine": "hoodie.table.precombine.field",
    }
    found: dict[tuple[str, int], set[str]] = defaultdict(set)
    for table in golden_tables.ALL:
        values = parse_properties(table.files()[PROPERTIES], PROPERTIES)
        found[table.writer, table.version] |= {name for name, key in keys.items() if key in values}

    assert found == {
        ("0.15.0", 6): {"payload", "precombine"},
        ("1.2.0", 6): {"payload", "ordering", "strategy"},
        ("1.0.2", 8): {"mode", "payload", "precombine", "strategy"},
        ("1.2.0", 8): {"mode", "payload", "ordering", "strategy"},
        ("1.2.0", 9): {"mode", "ordering"},
    }


def test_an_instant_completes_later_than_it_was_requested() -> None:
    times = [
        (instant.time, instant.completion_time)
        for table in golden_tables.ALL
        for instant, _ in instants(table)
        if instant.completion_time is not None
    ]

    assert len(times) > 200
    assert all(len(time) == len(done) == 17 and time < done for time, done in times)


def test_what_came_before_stays_beside_a_completed_write() -> None:
    for table in golden_tables.ALL:
        states: dict[str, set[State]] = defaultdict(set)
        for instant, _ in instants(table):
            states[instant.time].add(instant.state)
        names = [i for i, _ in instants(table) if i.action in COMMITS]
        done = {i.time for i in names if i.state is State.COMPLETED}
        # A rollback deletes what was pending; a savepoint has no request.
        assert all(State.REQUESTED in states[time] for time in done), table.name


def test_a_timeline_file_is_json_avro_or_empty_by_action_state_and_layout() -> None:
    found: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    for table in golden_tables.ALL:
        for instant, data in instants(table):
            kind = "avro" if is_avro(data) else "json" if data else "empty"
            layout = 1 if table.version == 6 else 2
            found[instant.action.value, instant.state.value, layout].add(kind)

    for action in ("commit", "deltacommit"):
        for layout, kind in ((1, "json"), (2, "avro")):
            assert found[action, "requested", layout] == {"empty"}
            assert found[action, "inflight", layout] == {kind, "empty"}
            assert found[action, "completed", layout] == {kind}
    assert found["replacecommit", "completed", 1] == {"json"}
    assert found["replacecommit", "completed", 2] == {"avro"}
    for layout, action in ((1, "replacecommit"), (2, "clustering"), (2, "replacecommit")):
        assert found[action, "requested", layout] == {"avro"}
    assert found["clustering", "inflight", 2] == {"empty"}
    for layout in (1, 2):
        for action in ("compaction", "rollback", "clean"):
            assert found[action, "requested", layout] == {"avro"}
            assert "empty" in found[action, "inflight", layout]
        assert found["savepoint", "inflight", layout] == {"empty"}
        for action in ("clean", "rollback", "savepoint"):
            assert found[action, "completed", layout] == {"avro"}
    assert found["clean", "inflight", 1] == {"avro", "empty"}  # 0.15.0 repeats its plan


def test_an_inflight_write_profiles_its_work_without_paths() -> None:
    stats = [
        stat
        for action in (Action.COMMIT, Action.DELTACOMMIT)
        for data in contents(action, State.INFLIGHT)
        for stat in parse_commit(data, "p").stats
    ]

    assert {stat.path for stat in stats} == {""}
    assert {bool(stat.file_id) for stat in stats} == {True, False}


def test_each_plan_says_the_version_of_its_record() -> None:
    clean, rollback = (Action.CLEAN, Action.ROLLBACK)
    requested, done = State.REQUESTED, State.COMPLETED

    assert {plans.parse_cleaner_plan(d, "p").version for d in contents(clean, requested)} == {2}
    assert {plans.parse_clean_metadata(d, "p").version for d in contents(clean, done)} == {2}
    assert {plans.parse_rollback_plan(d, "p").version for d in contents(rollback, requested)} == {1}
    compactions = contents(Action.COMPACTION, requested)
    assert {plans.parse_compaction_plan(d, "p").version for d in compactions} == {2}
    restores = contents(Action.RESTORE, requested)
    assert {plans.parse_restore_plan(d, "p").version for d in restores} == {2}
    restored = contents(Action.RESTORE, done)
    assert {plans.parse_restore_metadata(d, "p").version for d in restored} == {1}
    undone = contents(rollback, done)
    assert {plans.parse_rollback_metadata(d, "p").version for d in undone} == {1}
    saved = contents(Action.SAVEPOINT, done)
    assert {plans.parse_savepoint(d, "p").version for d in saved} == {1}
    clustered = contents(Action.CLUSTERING, requested)
    wanted = [plans.parse_requested_replace(d, "p").clustering_plan for d in clustered]
    assert {plan.version for plan in wanted if plan is not None} == {1}


def test_paths_in_plans_are_absolute_or_bare_names_by_kind() -> None:
    requested, done = State.REQUESTED, State.COMPLETED
    cleaned = [
        file.file_path
        for data in contents(Action.CLEAN, requested)
        for files in plans.parse_cleaner_plan(
            data, "p"
        ).file_paths_to_be_deleted_per_partition.values()
        for file in files
    ]
    clustered = [
        one.data_file_path
        for action in (Action.CLUSTERING, Action.REPLACECOMMIT)
        for data in contents(action, requested)
        if (plan := plans.parse_requested_replace(data, "p").clustering_plan)
        for group in plan.input_groups
        for one in group.slices
    ]
    undone = [
        path
        for data in contents(Action.ROLLBACK, done)
        for partition in plans.parse_rollback_metadata(data, "p").partition_metadata.values()
        for path in partition.success_delete_files
    ]
    compacted = [
        name
        for data in contents(Action.COMPACTION, requested)
        for operation in plans.parse_compaction_plan(data, "p").operations
        for name in (operation.data_file_path, *operation.delta_file_paths)
        if name
    ]
    saved = [
        name
        for data in contents(Action.SAVEPOINT, done)
        for partition in plans.parse_savepoint(data, "p").partition_metadata.values()
        for name in partition.savepoint_data_file
    ]
    gone = [
        name
        for data in contents(Action.CLEAN, done)
        for partition in plans.parse_clean_metadata(data, "p").partition_metadata.values()
        for name in partition.success_delete_files
    ]

    for absolute in (cleaned, clustered, undone):
        assert absolute
        assert all(path.startswith(("file:/", "/")) for path in absolute)
    for bare in (compacted, saved, gone):
        assert bare
        assert not any("/" in name for name in bare)


def test_a_write_statistic_names_its_file_from_the_table_root() -> None:
    checked = 0
    for table, commit in completed_commits():
        files = table.files()
        for stat in commit.stats:
            folder = f"{stat.partition_path}/" if stat.partition_path else ""
            name = stat.path.removeprefix(folder)
            assert stat.path.startswith(folder), table.name
            assert "/" not in name
            assert name.removeprefix(".").startswith(f"{stat.file_id}_"), table.name
            # A log file of layout 1 grows: its own commit knew a part of it.
            if stat.path in files and stat.log_version is None:
                assert stat.file_size_bytes == len(files[stat.path]), table.name
                checked += 1
    assert checked > 200


def test_the_schema_of_a_commit_leaves_the_meta_columns_out_but_for_sql() -> None:
    with_schema = [
        (table.table, META_COLUMN in commit.extra["schema"])
        for table, commit in completed_commits()
        if "schema" in commit.extra
    ]

    assert len(with_schema) > 200
    assert {name for name, meta in with_schema if meta} == {"cow_evolve", "sql_cow"}


def test_a_replace_commit_names_whole_file_ids() -> None:
    replaced = [
        file_id
        for _, commit in completed_commits()
        for ids in (commit.replaced or {}).values()
        for file_id in ids
    ]

    assert replaced
    assert all(len(file_id) == 38 and file_id.endswith("-0") for file_id in replaced)
