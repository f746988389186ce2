"""Every timeline file of every golden table is read, and survives being written again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
import pytest

from pyhudi.format import plans
from pyhudi.format.avro_file import is_avro
from pyhudi.format.commit_metadata import parse_commit, render_commit
from pyhudi.format.filenames import parse_base_file_name, parse_log_file_name
from pyhudi.format.instants import Action, Instant, State, instant_file_name, parse_instant
from pyhudi.format.schemas import avro_to_arrow, avro_to_spark, spark_to_avro
from tests import golden_tables
from tests.golden_tables import GoldenTable

Codec = tuple[Callable[[bytes, str], Any], Callable[[Any], bytes]]

REPLACE = (plans.parse_requested_replace, plans.render_requested_replace)
CLEANER = (plans.parse_cleaner_plan, plans.render_cleaner_plan)
CODECS: dict[tuple[Action, State], Codec] = {
    (Action.CLEAN, State.REQUESTED): CLEANER,
    (Action.CLEAN, State.INFLIGHT): CLEANER,
    (Action.CLEAN, State.COMPLETED): (plans.parse_clean_metadata, plans.render_clean_metadata),
    (Action.ROLLBACK, State.REQUESTED): (plans.parse_rollback_plan, plans.render_rollback_plan),
    (Action.ROLLBACK, State.COMPLETED): (
        plans.parse_rollback_metadata,
        plans.render_rollback_metadata,
    ),
    (Action.RESTORE, State.REQUESTED): (plans.parse_restore_plan, plans.render_restore_plan),
    (Action.RESTORE, State.COMPLETED): (
        plans.parse_restore_metadata,
        plans.render_restore_metadata,
    ),
    (Action.SAVEPOINT, State.COMPLETED): (plans.parse_savepoint, plans.render_savepoint),
    (Action.COMPACTION, State.REQUESTED): (
        plans.parse_compaction_plan,
        plans.render_compaction_plan,
    ),
    (Action.REPLACECOMMIT, State.REQUESTED): REPLACE,
    (Action.CLUSTERING, State.REQUESTED): REPLACE,
}
COMMITS = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)


def timeline(table: GoldenTable) -> list[tuple[str, int, bytes]]:
    """(file name, layout, bytes) of each timeline file, those of a metadata table included."""
    layout = 1 if table.version == 6 else 2
    folder = ".hoodie" if layout == 1 else ".hoodie/timeline"
    found = []
    for path, data in table.files().items():
        parent, _, name = path.rpartition("/")
        if parent in (folder, f".hoodie/metadata/{folder}") and name != "hoodie.properties":
            found.append((name, layout, data))
    return found


def without_empties(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: without_empties(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in (None, [], {}, "")}
    return [without_empties(inner) for inner in value] if isinstance(value, list) else value


def check(instant: Instant, name: str, layout: int, data: bytes) -> str:
    """Read one file, write it, read it again; returns what kind it was."""
    codec = CODECS.get((instant.action, instant.state))
    if codec is not None and (data or codec is REPLACE):
        parse, render = codec
        value = parse(data, name)
        again = render(value)
        assert parse(again, name) == value, name
        if data:
            (theirs,), (ours,) = (list(fastavro.reader(BytesIO(b))) for b in (data, again))
            assert without_empties(ours) == without_empties(theirs), name
        return f"{instant.action.value}.{instant.state.value}"
    if instant.action in COMMITS and data:
        commit = parse_commit(data, name)
        assert is_avro(data) == (layout == 2), name
        for either in (1, 2):
            assert parse_commit(render_commit(commit, either), name) == commit, name
        for stat in commit.stats:
            file_name = stat.path.rpartition("/")[2]
            known = parse_base_file_name(file_name) or parse_log_file_name(file_name)
            assert not stat.path or (known is not None and known.file_id == stat.file_id), name
        return "commit"
    assert data == b"", f"{name} was not read"
    return "empty"


def test_every_timeline_file_is_read_and_survives_being_written_again() -> None:
    kinds: Counter[str] = Counter()
    for table in golden_tables.ALL:
        files = timeline(table)
        assert files, table.name
        for name, layout, data in files:
            instant = parse_instant(name, layout)
            assert instant is not None, f"{table.name}: {name}"
            assert instant_file_name(instant, layout) == name
            kinds[check(instant, name, layout, data)] += 1

    assert kinds["commit"] > 500
    assert set(kinds) >= {f"{action.value}.{state.value}" for action, state in CODECS}, (
        "a kind of file never occurred"
    )


@pytest.mark.parametrize("table", golden_tables.ALL, ids=lambda table: table.name)
def test_the_schemas_of_every_commit_convert_to_spark_and_back(table: GoldenTable) -> None:
    layout = 1 if table.version == 6 else 2
    folder = ".hoodie/timeline/" if layout == 2 else ".hoodie/"
    name = table.table
    for path, data in table.files().items():
        instant = parse_instant(path.removeprefix(folder), layout)
        if instant is None or instant.action not in COMMITS or instant.state is not State.COMPLETED:
            continue
        text = parse_commit(data, path).extra.get("schema")
        if not text:
            continue
        avro = json.loads(text)
        struct = avro_to_spark(avro)
        assert avro_to_arrow(avro).names == [field["name"] for field in struct["fields"]]
        if "_hoodie_commit_time" not in text and "evolve" not in name:
            assert spark_to_avro(struct, name) == avro
