"""Schema histories in commits: repeated, extended, and kept from writers of other columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from pyhudi.choices import SchemaConflicts
from pyhudi.errors import SchemaConflict
from pyhudi.format.column_ids import plain, version_of
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata
from pyhudi.format.schema_history import (
    LATEST_SCHEMA_KEY,
    SCHEMA_FOLDER,
    history_time,
    parse_history,
    parse_version,
    render_version,
)
from pyhudi.format.schemas import canonical_json
from pyhudi.tables.alter import _altered
from pyhudi.tables.column_changes import AddColumn, ColumnChange, DropColumn, RenameColumn
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.transactions.conflicts.comparison import Footprint
from pyhudi.transactions.schema_saving import redefined_version
from pyhudi.transactions.transaction import Committed, Transaction
from pyhudi.writes.kept import Kept
from tests.transactions.world import NEVER, World, finish, schema, work

NewWorld = Callable[..., World]
RENAME = RenameColumn(("value",), "fare")
ADD = AddColumn(("a",), "string", True, None)
DROP = DropColumn(("value",))


def begin(world: World, rule: SchemaConflicts = SchemaConflicts.SIMPLE) -> Transaction:
    found = world.begin(policy=replace(NEVER, schemas=rule))
    found.keep_history()
    return found


def insert(transaction: Transaction, key: str, *columns: str) -> Committed:
    """Commit one new row in a file group of its own."""
    return finish(transaction, work(transaction, {key: "1"}, partition=key), schema(*columns))


def alter(transaction: Transaction, *changes: ColumnChange) -> Committed:
    """Commit changes of columns as ``tables/alter.py`` does."""
    history, table = transaction.keep_history(), transaction.table
    current = table_schema(table, transaction.timeline, None)
    assert current is not None
    timeline = transaction.timeline
    before = history.current() or history.first_version(current)
    found = _altered(current, before, changes, table.config)
    version = version_of(found.columns, int(transaction.instant), before, timeline.layout)
    extra = {
        SCHEMA_KEY: canonical_json(plain(found.columns).avro("t")),
        LATEST_SCHEMA_KEY: render_version(version),
    }
    transaction.inflight(None)
    transaction.seal(lambda timeout_s: True, ())
    return transaction.commit(CommitMetadata("ALTER_SCHEMA", (), extra), Footprint("alter"))


def columns_of(world: World) -> list[str]:
    """The table's columns with their ids, as the last commit says."""
    table = world.table()
    timeline = table.timeline()
    extra = COMMITS.get(world.memory, timeline, timeline.commits[-1]).extra
    version = parse_version(extra[LATEST_SCHEMA_KEY], "the last commit")
    own = [f"{f['name']} {f['id']}" for f in version.fields[5:]]
    assert SchemaHistory(table, timeline).saved().versions[0] == version
    return own


def saved(world: World) -> list[str]:
    files = sorted(f.name for f in world.memory.list(SCHEMA_FOLDER))
    assert all(history_time(name) for name in files)
    return files


def test_a_table_without_a_history_gets_none_by_writing(world: World) -> None:
    done = insert(begin(world), "s", "key", "value")

    assert LATEST_SCHEMA_KEY not in done.metadata.extra
    assert saved(world) == []


def test_a_history_begins_with_a_change_and_goes_with_each_commit(world: World) -> None:
    insert(begin(world), "s", "key", "value")
    renamed = alter(begin(world), RENAME)

    assert columns_of(world) == ["key 5", "fare 6"]
    first, last = renamed.instant, insert(begin(world), "t", "key", "fare")
    assert columns_of(world) == ["key 5", "fare 6"]
    assert last.metadata.extra[LATEST_SCHEMA_KEY] == renamed.metadata.extra[LATEST_SCHEMA_KEY]
    insert(begin(world), "u", "key", "fare", "value")
    assert columns_of(world) == ["key 5", "fare 6", "value 7"]
    assert len(saved(world)) == 3
    newest = world.memory.read(f"{SCHEMA_FOLDER}/{saved(world)[-1]}").decode()
    ids = [v.version_id for v in parse_history(newest, "newest")]
    assert ids == [int(world.table().timeline().commits[-1].time), int(first), 0]


def test_a_column_of_a_new_definition_has_an_id_of_its_own(world: World) -> None:
    insert(begin(world), "s", "key", "value")
    for begun, ids in ((False, ["value 7", "key 5"]), (True, ["value 8", "key 5"])):
        transaction = begin(world)
        declared = schema("value", "key")
        history = transaction.keep_history()
        assert (history.current() is not None) is begun
        instant, gone = transaction.instant, {"value"}
        made = redefined_version(history, instant, declared, gone)
        transaction.inflight(None)
        transaction.seal(lambda timeout_s: True, ())
        extra = {SCHEMA_KEY: declared, LATEST_SCHEMA_KEY: made}
        transaction.commit(CommitMetadata("REPLACE", (), extra), Footprint("replace"))
        assert columns_of(world) == ids
        insert(begin(world), "t", "value", "key")
        assert columns_of(world) == ids


@pytest.mark.parametrize("rule", SchemaConflicts)
@pytest.mark.parametrize("theirs", [RENAME, DROP])
def test_a_write_for_columns_that_are_others_by_now_fails(
    new_world: NewWorld, rule: SchemaConflicts, theirs: ColumnChange
) -> None:
    world = new_world(9)
    insert(begin(world), "s", "key", "value")
    mine = begin(world, rule)
    other = begin(world, rule)
    alter(other, ADD, theirs)

    with pytest.raises(SchemaConflict) as failed:
        insert(mine, "m", "key", "value")

    assert failed.value.facts["column"] == "value"
    mine.abort()
    assert world.rows() == {"s": "1"}
    assert columns_of(world)[-1] == "a 7"


def test_a_write_beside_an_added_column_takes_the_version_over(new_world: NewWorld) -> None:
    world = new_world(9)
    insert(begin(world), "s", "key", "value")
    mine = begin(world)
    alter(begin(world), ADD)

    done = insert(mine, "m", "key", "value")

    version = parse_version(done.metadata.extra[LATEST_SCHEMA_KEY], "mine")
    assert [f["id"] for f in version.fields[5:]] == [5, 6, 7]
    assert columns_of(world) == ["key 5", "value 6", "a 7"]


def test_a_write_that_is_tried_again_keeps_to_its_columns(new_world: NewWorld) -> None:
    world = new_world(9)
    insert(begin(world), "s", "key", "value")
    kept = Kept()
    kept.check_columns(begin(world).keep_history())

    alter(begin(world), ADD)
    kept.check_columns(begin(world).keep_history())
    alter(begin(world), RENAME)

    with pytest.raises(SchemaConflict, match="'value' is 'fare' now"):
        kept.check_columns(begin(world).keep_history())


@pytest.mark.parametrize("rule", SchemaConflicts)
def test_of_two_changes_at_once_the_second_fails(
    new_world: NewWorld, rule: SchemaConflicts
) -> None:
    world = new_world(9)
    insert(begin(world), "s", "key", "value")
    mine, theirs = begin(world, rule), begin(world, rule)
    alter(theirs, replace(ADD, column=("b",)))

    with pytest.raises(SchemaConflict):
        alter(mine, RENAME)

    mine.abort()
    assert columns_of(world) == ["key 5", "value 6", "b 7"]
    assert json.loads(world.memory.read(f"{SCHEMA_FOLDER}/{saved(world)[0]}"))["schemas"]
