"""Services beside Apache Hudi on tables with log files: what stays is read and written alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest

import pyhudi as package
from integration.peers import SparkPeer
from integration.peers.hudi_rs import HudiRs
from integration.sample import cells, versions
from integration.test_clean import CLEANS, DS, POLICIES, by_hudi, options, rows, seen
from integration.test_restore import restored_by_hudi, timeline_of
from pyhudi.services import clean as clean_module

Peers = Callable[[str], SparkPeer]
#: upserts: partition -> value; after two of them, each group with logs is compacted
BEFORE = [
    {"a": 1, "b": 1, "c": 1}, {"a": 2}, {"b": 2, "a": 3}, {"a": 4}, {"c": 2, "b": 3}, {"a": 5},
    {"b": 4},
]  # fmt: skip
AFTER = [{"b": 5}, {"a": 6, "c": 3}, {"a": 7, "b": 6}, {"c": 4}, {"a": 8}, {"b": 7}, {"a": 9}]
SAVED, LAST = {"a": 5, "b": 4, "c": 2}, {"a": 9, "b": 7, "c": 4}
ARCHIVES = {"hoodie.keep.min.commits": "4", "hoodie.keep.max.commits": "5"}


@pytest.fixture(autouse=True)
def _old_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may go as soon as it is old: no query has just begun."""
    monkeypatch.setattr(clean_module, "SPARED_MS", 0)


def logged(version: int) -> dict[str, str]:
    return {
        **options(version),
        DS + "table.type": "MERGE_ON_READ",
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "2",
    }


def upsert(hudi: SparkPeer, path: Path, version: int, *writes: dict[str, int]) -> None:
    for values in writes:
        hudi.write(path, rows(values), logged(version), "append" if path.exists() else "overwrite")


def files(path: Path) -> set[str]:
    found = (*path.rglob("*.parquet"), *path.rglob(".*.log.*"))
    kept = (f for f in found if ".hoodie" not in f.parts and f.suffix != ".crc")
    return {str(f.relative_to(path)) for f in kept}


def alike(peers: Peers, path: Path, wanted: dict[str, int]) -> None:
    for reader in (peers("hudi-1.2.0"), peers("pyhudi"), HudiRs()):
        assert seen(reader, path) == wanted, reader


@pytest.mark.parametrize("version", versions(9, 6))
def test_services_keep_the_rows_of_tables_with_logs(
    peers: Peers, tmp_path: Path, version: int
) -> None:
    hudi, path, theirs = peers("hudi-1.2.0"), tmp_path / "ours", tmp_path / "theirs"
    upsert(hudi, path, version, *BEFORE)
    saved = timeline_of(path).commits[-1].time
    kept = package.savepoint(str(path), saved)
    assert kept.files > 3, "logs are among them"
    upsert(hudi, path, version, *AFTER)
    alike(peers, path, LAST)
    copytree(path, theirs)
    before = files(path)

    # The same slices go as by Apache Hudi, with their logs, and the savepoint keeps its own.
    by_hudi(hudi, theirs, version, POLICIES["commits"])
    gone = [f for f in package.clean(str(path), options=POLICIES["commits"]) if f.clean]
    assert {f"{f.partition}/{f.file}" for f in gone} == before - files(path)
    assert any(f.file.startswith(".") for f in gone)
    assert files(path) == files(theirs)
    alike(peers, path, LAST)

    # Apache Hudi refuses all times before the earliest that a clean keeps, savepoints too.
    then = peers("pyhudi").read(path, as_of=str(saved)).rows
    assert {row["id"]: row["v"] for row in then} == SAVED

    undone = package.restore(str(path), saved)
    assert any(each.action == "commit" for each in undone), "a compaction is undone"
    restored_by_hudi(hudi, theirs, version, saved)
    if version > 6:  # Apache Hudi leaves logs of version 6, with a block that takes them back
        assert files(path) == files(theirs)
    alike(peers, path, SAVED)
    alike(peers, theirs, SAVED)
    assert package.restore(str(theirs), saved) == []
    package.delete_savepoint(str(path), saved)
    upsert(hudi, path, version, {"a": 10, "d": 1}, {"a": 11, "b": 8})
    alike(peers, path, {"a": 11, "b": 8, "c": 2, "d": 1})
    assert not timeline_of(path).pending


@pytest.mark.parametrize(("version", "policy"), cells(CLEANS, [(9, "commits"), (6, "versions")]))
def test_a_table_with_logs_is_cleaned_and_archived_as_by_hudi(
    peers: Peers, tmp_path: Path, version: int, policy: str
) -> None:
    given = POLICIES[policy]
    hudi, path, theirs = peers("hudi-1.2.0"), tmp_path / "ours", tmp_path / "theirs"
    upsert(hudi, path, version, *BEFORE, *AFTER)
    copytree(path, theirs)

    by_hudi(hudi, theirs, version, given)
    assert package.clean(str(path), options=given)
    assert files(path) == files(theirs)
    moved = package.archive(str(path), options={**given, **ARCHIVES})
    assert [each.action for each in moved if each.fate.value == "archived"].count("deltacommit") > 2
    alike(peers, path, LAST)
    assert package.remove_orphans(str(path), older_than_hours=0) == []

    more = {"hoodie.clean.automatic": "true", "hoodie.archive.automatic": "true", **ARCHIVES}
    for values in ({"a": 10, "d": 1}, {"b": 8, "a": 11}, {"c": 5}):
        hudi.write(path, rows(values), {**logged(version), **given, **more})
    alike(peers, path, {"a": 11, "b": 8, "c": 5, "d": 1})
    # So does pyhudi, with its own services after each commit.
    for values in ({"a": 12}, {"b": 9, "d": 2}, {"a": 13, "e": 1}):
        peers("pyhudi").write(path, rows(values), {**logged(version), **given, **more})
    hudi.write(path, rows({"c": 6, "e": 2}), {**logged(version), **given, **more})
    alike(peers, path, {"a": 13, "b": 9, "c": 6, "d": 2, "e": 2})


#: how Apache Hudi rolls a commit back that others have followed, and leaves the version as it is
BESIDE_OTHERS = {
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.metadata.enable": "false",
}


@pytest.mark.parametrize("version", versions(9, every=(9, 8)))
def test_a_write_goes_on_where_apache_hudi_took_the_base_file_from_below_a_log(
    peers: Peers, tmp_path: Path, version: int
) -> None:
    """Its rollback of a commit does not look whether others have built on that commit."""
    hudi, pyhudi, path = peers("hudi-1.2.0"), peers("pyhudi"), tmp_path / "rolled"
    given = {**logged(version), "hoodie.compact.inline": "false"}
    pyhudi.write(path, rows({"a": 1, "b": 1}), given, "overwrite")
    pyhudi.write(path, rows({"a": 2}), given)
    begun = timeline_of(path).commits[0].time
    for key, value in BESIDE_OTHERS.items():
        hudi.sql(f"set {key}={value}")
    hudi.sql(f"create table rolled using hudi location '{path}'")
    hudi.sql(f"call rollback_to_instant(table => 'rolled', instant_time => '{begun}')")
    hudi.sql("drop table rolled")
    for key in BESIDE_OTHERS:
        hudi.sql(f"reset {key}")
    assert [Path(name).suffix for name in files(path)].count(".parquet") == 0
    alike(peers, path, {"a": 2})

    pyhudi.write(path, rows({"a": 3, "c": 1}), given)
    alike(peers, path, {"a": 3, "c": 1})
    hudi.write(path, rows({"a": 4, "b": 2}), given)
    alike(peers, path, {"a": 4, "b": 2, "c": 1})
