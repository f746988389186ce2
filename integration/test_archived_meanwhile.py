"""Commits that Apache Hudi archives while a write of ours stands open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from integration.open_writes import RETRIES, OpenWriter, numbers, rows
from integration.peers import SparkPeer
from integration.sample import versions
from pyhudi.errors import CommitConflict
from pyhudi.timeline.archived import archived_instants

Peers = Callable[[str], SparkPeer]
more = pytest.mark.matrix
VERSIONS = versions(9)


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> OpenWriter:
    made = OpenWriter(tmp_path / "open", version, monkeypatch)
    made.create()
    return made


def archive(hudi: SparkPeer, path: Path) -> None:
    """Leave the two newest commits on the timeline."""
    hudi.sql(
        f"call archive_commits(path => '{path}', min_commits => 2, max_commits => 3, "
        "retain_commits => 1, enable_metadata => false)"
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("retries", ["0", pytest.param("4", marks=more)])
def test_a_commit_that_came_and_was_archived_by_hudi_while_ours_was_open_is_a_conflict(
    writer: OpenWriter, peers: Peers, version: int, retries: str
) -> None:
    hudi = peers("hudi-1.2.0")
    for number in range(3):
        writer.write(rows("kl", number))
    theirs = writer.begin(rows("k", 10))
    others = [writer.begin(rows("z", number, dt)) for number, dt in enumerate("bcd")]
    ours = writer.begin(rows("k", 11), **{RETRIES: retries})
    for write in (theirs, *others):
        write.go()
    archive(hudi, writer.path)
    table = writer.table()
    archived = {a.instant.time for a in archived_instants(table.storage, table.config)}
    assert theirs.instant in archived - {i.time for i in table.timeline().instants}

    if retries == "0":
        with pytest.raises(CommitConflict, match="changed the same file groups") as lost:
            ours.go()
        assert lost.value.facts["theirs"] == theirs.instant
    else:
        assert ours.go().conflicts_retried == 1
    expected = {"k": 11 if retries == "4" else 10, "l": 2}
    found = numbers(row for row in hudi.read(writer.path).rows if row["dt"] == "a")
    assert found == expected
    assert table.config.version == version
