"""The history of a table: which commits and files of it count, and what fills their gaps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyhudi.errors import TableCorrupt
from pyhudi.format.column_ids import file_name
from pyhudi.format.commit_metadata import CommitMetadata, parse_commit, render_commit
from pyhudi.format.instants import InstantTime
from pyhudi.format.schema_history import LATEST_SCHEMA_KEY, SCHEMA_FOLDER, parse_version
from pyhudi.format.schemas import canonical_json, spark_to_avro
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.schema_history import SchemaHistory, extended
from pyhudi.timeline.table import PROPERTIES, Table, open_table
from tests.fakes import FakeClock
from tests.golden_tables import BY_NAME

#: of the golden table: the insert, the rename, the insert into it, the drop, the last update
FIRST, RENAMED, INSERTED, DROPPED, LAST = (
    InstantTime(f"20261121053{end}")
    for end in ("353454", "358575", "400366", "404474", "405868")
)  # fmt: skip


@pytest.fixture
def table(request: pytest.FixtureRequest) -> Table:
    """The golden table of Apache Hudi 0.15.0 in memory, of which a test may change files."""
    storage = MemoryStorage(f"memory:/{request.node.name}", FakeClock())
    for path, data in BY_NAME["h0150_v6-cow_evolve"].files().items():
        storage.put_if_absent(path, data)
    return open_table(storage)


@pytest.fixture
def new_storage(request: pytest.FixtureRequest) -> MemoryStorage:
    """A table of version 6 without a commit."""
    storage = MemoryStorage(f"memory:/{request.node.name}", FakeClock())
    golden = BY_NAME["h0150_v6-cow_evolve"].files()
    storage.put_if_absent(PROPERTIES, golden[PROPERTIES])
    return storage


def held(table: Table, file: InstantTime, as_of: InstantTime | None = None) -> dict[str, Any]:
    """Column -> what a file of the instant calls it."""
    timeline = table.timeline()
    current = table_schema(table, timeline, as_of)
    commit = next(i for i in timeline.commits if i.time == file)
    text = parse_commit(table.storage.read(timeline.file_of(commit)), "c").extra["schema"]
    assert current is not None
    history = SchemaHistory(table, timeline, as_of)
    found = history.held(current, file, SparkSchema.of_avro(json.loads(text)))
    return {column.name: file_name(column) for column in found.columns}


def commit(table: Table, time: str, *columns: str, **more: str) -> InstantTime:
    """A commit by a writer without schema-on-read: its schema, columns all text or of the type
    after a colon, and ``more``."""
    named = (column.partition(":") for column in columns)
    fields = [
        {"name": name, "type": kind or "string", "nullable": True, "metadata": {}}
        for name, _, kind in named
    ]
    avro = spark_to_avro({"type": "struct", "fields": fields}, "t")
    extra = {"schema": canonical_json(avro), **more}
    data = render_commit(CommitMetadata("UPSERT", (), extra), 1)
    table.storage.put_if_absent(f".hoodie/{time}.commit", data)
    return InstantTime(time)


def test_each_file_is_read_by_the_version_of_its_commit(table: Table) -> None:
    plain = {name: name for name in ("id", "title", "price", "qty", "ts")}

    assert held(table, FIRST) == {**plain, "title": "name"}
    assert held(table, INSERTED) == held(table, LAST) == plain
    assert held(table, FIRST, RENAMED) == {**plain, "title": "name", "extra": "extra"}


def test_before_the_first_change_columns_are_told_by_names(table: Table) -> None:
    assert SchemaHistory(table, table.timeline(), FIRST).current() is None
    assert held(table, FIRST, FIRST)["name"] == "name"


def test_a_commit_that_says_no_version_goes_on_by_names(table: Table) -> None:
    later = commit(table, "20261121053500000", "id", "title", "price", "qty", "ts", "extra", "name")
    history = SchemaHistory(table, table.timeline())

    current = history.current()

    assert current is not None
    assert (current.version_id, current.max_column_id) == (int(later), 12)
    assert [f["id"] for f in current.fields[-2:]] == [11, 12], "not those that were dropped"
    assert held(table, INSERTED)["extra"] == "extra_"
    assert held(table, FIRST)["title"] == "name"
    assert held(table, FIRST)["name"] == "name_"
    assert history.text() == extended(current, history.saved().text)


def test_a_column_that_went_before_the_history_is_none_of_later_ones(table: Table) -> None:
    """Apache Hudi's writers may drop columns by name; the first one that comes has the next id."""
    old = commit(table, "20261121053300000", "id", "gone", "name", "price", "qty", "ts")

    assert held(table, old, RENAMED)["extra"] == "extra"
    same = commit(table, "20261121053300001", "id", "extra", "name", "price", "qty", "ts")
    assert held(table, same, RENAMED)["extra"] == "extra_"


def test_what_several_commits_add_by_names_is_found_in_the_files_of_each(table: Table) -> None:
    own = ("id", "title", "price", "qty", "ts")
    one = commit(table, "20261121053500000", *own, "late")
    commit(table, "20261121053600000", *own, "late", "later")
    assert held(table, one)["late"] == "late"

    history = SchemaHistory(table, table.timeline())
    path = f"{SCHEMA_FOLDER}/20261121053600000.schemacommit"
    table.storage.put_if_absent(path, history.text().encode())
    assert held(table, one)["late"] == "late"
    assert held(table, one)["later"] == "later"


def test_a_history_file_counts_if_its_commit_does(table: Table) -> None:
    whole = table.storage.read(f"{SCHEMA_FOLDER}/{LAST}.schemacommit")
    table.storage.put_if_absent(f"{SCHEMA_FOLDER}/20261121053600000.schemacommit", b"no JSON")
    timeline = table.timeline()

    assert SchemaHistory(table, timeline).saved().text == whole.decode()
    assert len(SchemaHistory(table, timeline, RENAMED).saved().versions) == 5
    assert SchemaHistory(table, timeline, FIRST).saved().text == ""


def test_a_lost_history_is_an_error_only_where_it_is_needed(table: Table) -> None:
    table.storage.delete_folder(SCHEMA_FOLDER)

    assert held(table, LAST)["title"] == "title"
    with pytest.raises(TableCorrupt, match=f"commit {FIRST} wrote"):
        held(table, FIRST)


def test_a_table_without_a_history_is_looked_at_once(new_storage: MemoryStorage) -> None:
    """Until one of its commits says a version; a history file alone counts for those before."""
    table = open_table(new_storage)
    first = commit(table, "20261121060000000", "id")
    assert SchemaHistory(table, table.timeline()).current() is None
    text = '{"schemas":[{"version_id":0,"max_column_id":5,"fields":[]}]}'
    new_storage.put_if_absent(f"{SCHEMA_FOLDER}/{first}.schemacommit", text.encode())

    commit(table, "20261121060100000", "id")
    assert SchemaHistory(table, table.timeline()).saved().text == "", "nothing was listed"
    latest = '{"version_id":1,"max_column_id":5,"fields":[]}'
    commit(table, "20261121060200000", "id", latest_schema=latest)
    commit(table, "20261121060300000", "id")

    assert SchemaHistory(table, table.timeline()).saved().text == text


def test_what_is_in_front_of_a_history_is_its_newest_version(table: Table) -> None:
    timeline = table.timeline()
    last = next(i for i in timeline.commits if i.time == LAST)
    text = parse_commit(table.storage.read(timeline.file_of(last)), "c").extra[LATEST_SCHEMA_KEY]

    assert extended(parse_version(text, "t"), "") == f'{{"schemas":[{text}]}}'
    assert extended(parse_version(text, "t"), '{"schemas":[1]}') == f'{{"schemas":[{text},1]}}'
