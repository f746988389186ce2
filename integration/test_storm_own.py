"""A small storm with pyhudi's own services, and that its checks see what they are there to see.

``python -m integration.storm_own`` raises the whole storms and publishes what they did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from integration.peers import HudiRs, SparkPeer
from integration.storm_check import Told
from integration.storm_chronicle import Chronicle, Entry
from integration.storm_own import LOCKS, PAGE, blows, named_services, orphans, rage, verify
from integration.storm_own_page import (
    COLUMNS,
    LOGS_SAMPLE,
    SAMPLE,
    Report,
    Season,
    Span,
    least,
    ratio,
    with_ours,
)
from integration.storm_page import OURS, part_of, parts_of
from integration.storm_places import place
from pyhudi.storage.memory import MemoryStorage


def spans(*rates: tuple[bool, int, int]) -> list[Span]:
    """Parts of ten seconds with the commits of two writers."""
    return [Span(works, 0.0, 10.0, tuple(commits)) for works, *commits in rates]


def of_version(version: int) -> Season:
    """The small storm on merge-on-read tables of another version."""
    return replace(LOGS_SAMPLE, scale=replace(LOGS_SAMPLE.scale, version=version))


@pytest.mark.parametrize(
    ("lock", "season"),
    [
        pytest.param("filesystem", SAMPLE, id="copy-on-write"),
        pytest.param("filesystem", LOGS_SAMPLE, id="merge-on-read", marks=pytest.mark.matrix),
        pytest.param("numbered", of_version(8), id="merge-on-read-v8", marks=pytest.mark.matrix),
        pytest.param("zookeeper", of_version(6), id="merge-on-read-v6", marks=pytest.mark.matrix),
    ],
)
def test_beside_our_services_no_write_is_lost_and_no_reader_loses_a_file(
    tmp_path: Path,
    hudi_rs: HudiRs,
    peers: Callable[[str], SparkPeer],
    lock: str,
    season: Season,
) -> None:
    with place(lock, tmp_path) as where:
        report = rage(where, season, "sample", tmp_path)
        verify(report, where, hudi_rs, peers("hudi-1.2.0"))
    assert report.problems == []
    for service in season.services:
        assert report.services[service] > 0, f"{service} had no work"
    assert report.struck["services"].total() == len(season.services)
    assert report.reads["with files that were replaced"] > 0


def test_every_service_is_killed_and_stopped_while_it_holds_the_lock() -> None:
    plan = blows(Season(), lease_s=8.0)
    for service in ("clean", "archive", "cluster", "compact"):
        killed, paused = plan[service]
        assert (killed.event, killed.pause_s) == ("locked", None)
        assert paused.event == "locked"
        assert paused.pause_s


def test_a_failure_that_names_a_clustering_is_told_from_one_that_names_a_write() -> None:
    kept = Chronicle(services={"20240101000000003"})
    assert named_services(kept, "commit 20240101000000003 changed it") == ["20240101000000003"]
    assert named_services(kept, "commit 20240101000000001 changed it") == []


def test_a_file_that_no_commit_named_is_an_orphan_and_one_of_an_archived_commit_is_not() -> None:
    storage = MemoryStorage()
    for path in ("p/a_0_1.parquet", "p/b_0_1.parquet", ".hoodie/.temp/1/x", ".hoodie/x.parquet"):
        storage.put_if_absent(path, b"")
    entry = Entry("1", "1", (0, 0), frozenset(), frozenset({"p/a_0_1.parquet"}))
    assert orphans(storage, Chronicle({"1": entry})) == [".hoodie/.temp/1/x", "p/b_0_1.parquet"]


def test_the_share_is_of_medians_and_the_least_is_that_of_one_writer() -> None:
    found = spans((False, 10, 10), (True, 10, 8), (True, 10, 6), (False, 10, 10))
    assert ratio(found) == pytest.approx((2.0, 1.7, 0.85))
    assert least(found) == pytest.approx(0.7)
    assert ratio([]) == (0.0, 0.0, 0.0)
    assert least([]) == 0.0


def test_the_page_keeps_the_lines_of_other_storms_and_the_parts_beside() -> None:
    report = Report("filesystem", "local disk", Season(), "1", Told())
    page = with_ours("# The storm\n\n## With Apache Hudi's services\n\nTheirs\n", [report])
    assert page.startswith("# The storm\n\n## With Apache Hudi's services\n\nTheirs\n\n" + OURS)
    assert with_ours(page, []) == page
    report.lock = "ZooKeeper"
    both = with_ours(page, [report])
    assert [line[:13] for line in part_of(both, OURS).splitlines()[-2:]] == [
        "| filesystem ", "| ZooKeeper |",
    ]  # fmt: skip
    assert parts_of(both).startswith("## With Apache Hudi's services")


def test_the_published_page_has_a_storm_of_each_lock_and_names_no_problem() -> None:
    part = part_of(PAGE.read_text(encoding="utf-8"), OURS)
    names, _, *storms = [
        row.strip("| ").split(" | ") for row in part.splitlines() if row.startswith("| ")
    ]
    assert tuple(names) == COLUMNS
    kinds = {"merge-on-read" in storm[2] for storm in storms}
    assert 0 < len(storms) <= len(LOCKS) * len(kinds)
    for storm in storms:
        told = dict(zip(names, storm, strict=True))
        assert told["problems"] == "none"
        assert told["files pulled away"] == "0"
        assert all(int(told[name]) for name in ("files cleaned", "clusterings", "states held"))
        assert bool(int(told["compactions"])) == ("merge-on-read" in storm[2])
