"""Cross-reads and killed writers once more with the tables on an S3 server, as ``s3a://``.

``make integration`` plays them on MinIO (on moto where there is no Go to build it); ``make test``
leaves them out, since Hadoop's S3 client alone is a download of 280 MB, for Spark 4 of 530 MB.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from integration.killed_writer import LOGS, OPTIONS
from integration.matrix.script import all_cells, play
from integration.peers import HudiRs, PeerError, SparkPeer, apache_hudi, maven, pyhudi_on_spark
from integration.peers.spark import child_environment
from integration.peers.tables import S3Place
from integration.strays import is_data
from integration.test_killed_writers import said
from pyhudi.storage.open import open_storage
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.table import open_table
from tests.s3_server import S3Server, s3_server
from tests.spark_lines import python

OURS, ON_SPARK_4, HUDI = "pyhudi", "pyhudi-4.0", "hudi-1.2.0"
#: what a Spark 4.0 session needs to open ``s3a://``
S3A_OF_SPARK_4 = ("org.apache.hadoop:hadoop-aws:3.4.1", "software.amazon.awssdk:bundle:2.24.6")
CELLS = [
    ("v6-simple-bloom", OURS),
    ("v8-composite-simple", OURS),
    ("v9-multi-bucket", OURS),
    ("v9-keyless-simple", OURS),
    ("v9-simple-bloom", ON_SPARK_4),
    ("v6-multi-simple-mor", OURS),
    ("v9-simple-bloom-mor", OURS),
    ("v9-composite-bucket-mor", OURS),
]

pytestmark = pytest.mark.matrix

Peers = Callable[[str], SparkPeer]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The server that keeps the tables of this module."""
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(scope="module")
def s3_peers(server: S3Server) -> Iterator[Peers]:
    """``s3_peers(name)`` as ``peers`` in conftest, each of them a client of ``server``."""
    running: dict[str, SparkPeer] = {}

    def start(name: str) -> SparkPeer:
        if name == OURS:
            return pyhudi_on_spark(s3=server)
        if name == ON_SPARK_4:
            jars = {"spark.jars": ",".join(str(maven.jar(one)) for one in S3A_OF_SPARK_4)}
            return pyhudi_on_spark(name, str(python("4.0")), server, jars)
        return apache_hudi(name.removeprefix("hudi-"), server)

    def get(name: str) -> SparkPeer:
        if name not in running:
            running[name] = start(name)
        return running[name]

    yield get
    for peer in running.values():
        peer.close()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("name", "subject"), CELLS)
def test_all_readers_return_the_rows_of_the_model_on_s3_too(
    name: str, subject: str, server: S3Server, s3_peers: Peers
) -> None:
    cell = next(cell for cell in all_cells() if cell.name == name)
    place = S3Place(server.new_table(name), server)
    play(cell, subject, place, s3_peers, HudiRs(server), lambda step, outcome: None)


def kill(place: S3Place, scratch: Path, *step: str) -> None:
    """Run a writer that dies at the chosen step, its S3 client set up as a cluster's would be."""
    given = {f"spark.hadoop.{key}": text for key, text in place.server.hadoop_options.items()}
    given["spark.driver.extraClassPath"] = os.pathsep.join(str(maven.jar(j)) for j in maven.S3A)
    lines = [f"{key} {text}" for key, text in given.items()]
    (scratch / "spark-defaults.conf").write_text("\n".join(lines))
    env = {**child_environment(sys.executable), "SPARK_CONF_DIR": str(scratch)}
    argv = [sys.executable, "-m", "integration.killed_writer", place.uri, *step]
    killed = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]


def named_and_found(place: S3Place) -> tuple[set[str], set[str]]:
    """Data files that commits name, and those that are there; pending instants and all that
    failed writes leave count as found."""
    opened = open_table(open_storage(place.uri, place.server.hadoop_options))
    timeline = opened.timeline()
    named = {
        stat.path
        for commit in timeline.commits
        for stat in COMMITS.get(opened.storage, timeline, commit).stats
    }
    paths = [file.path for file in opened.storage.walk("")]
    traces = (".hoodie/.temp/", ".hoodie/.heartbeat/")
    found = {p for p in paths if is_data(p) or p.startswith(traces)}
    return named, found | {str(instant) for instant in timeline.pending}


def rows(first: int, end: int, name: str, ts: int) -> pa.Table:
    ids = range(first, end)
    columns = {
        "id": pa.array(ids, pa.int64()),
        "name": [f"{name}{i}" for i in ids],
        "ts": pa.array([ts] * len(ids), pa.int64()),
        "dt": [f"2024-01-0{i % 3 + 1}" for i in ids],
    }
    return pa.table(columns)


DIRECT = "hoodie.write.markers.type=direct"
#: the killed write has three logs for known keys, and three base files for new ones
LOGGED = said(LOGS)


@pytest.mark.parametrize(
    ("step", "committed", "survivor"),
    [
        pytest.param(("replace", "*/MARKERS0", "yes"), False, OURS, id="in-tasks"),
        pytest.param(("read", "*/MARKERS0", "yes"), False, OURS, id="seal"),
        pytest.param(("put_if_absent", "*_*.commit", "yes"), False, OURS, id="publish"),
        pytest.param(("delete_folder", ".hoodie/.temp/*", "yes"), True, OURS, id="after-publish"),
        pytest.param(("put_if_absent", "*_*.commit", "yes"), False, ON_SPARK_4, id="spark4"),
        pytest.param(("read", "*/MARKERS0", "yes"), False, HUDI, id="hudi"),
        pytest.param(("walk", ".hoodie/.temp/*", "yes", DIRECT), False, HUDI, id="hudi-direct"),
        pytest.param(("put_if_absent", "*_*.deltacommit", "yes", *LOGGED), False, OURS, id="logs"),
        pytest.param(("read", "*/MARKERS0", "yes", *LOGGED), False, HUDI, id="logs-hudi"),
        pytest.param(
            ("walk", ".hoodie/.temp/*", "yes", *LOGGED, DIRECT), False, HUDI, id="logs-hudi-direct"
        ),
    ],
)
def test_a_writer_killed_on_s3_leaves_exact_rows_and_no_stray_file(
    step: tuple[str, ...],
    committed: bool,
    survivor: str,
    server: S3Server,
    s3_peers: Peers,
    tmp_path: Path,
) -> None:
    place = S3Place(server.new_table("trips"), server)
    options = {**OPTIONS, **(LOGS if LOGGED[0] in step else {})}
    s3_peers(OURS).write(place, rows(0, 200, "first", 1), options)
    kill(place, tmp_path, *step)
    named, found = named_and_found(place)
    assert found - named, "it has left something"
    assert any(".log." in path for path in found - named) == (LOGGED[0] in step)

    if survivor == HUDI:
        s3_peers(HUDI).write_into(place, rows(250, 260, "next", 3))
    else:
        s3_peers(survivor).write(place, rows(250, 260, "next", 3), options)

    expected = {i: f"first{i}" for i in range(200)}
    if committed:
        expected |= {i: f"killed{i}" for i in range(100, 300)}
    expected |= {i: f"next{i}" for i in range(250, 260)}
    for reader in (s3_peers(OURS), s3_peers(HUDI), HudiRs(server)):
        seen = reader.read(place).rows
        assert sorted((row["id"], row["name"]) for row in seen) == sorted(expected.items())
    named, found = named_and_found(place)
    left = found - named
    if survivor == HUDI:  # which removes heartbeats under LAZY only: our next writer sweeps it up
        left = {path for path in left if not path.startswith(".hoodie/.heartbeat/")}
    assert left == set()


class Logged:
    """A merge-on-read table on S3 and the rows that it must have."""

    def __init__(self, server: S3Server, s3_peers: Peers, version: int) -> None:
        self.place = S3Place(server.new_table("logged"), server)
        self.options = {
            **OPTIONS,
            **LOGS,
            "hoodie.write.table.version": str(version),
            "hoodie.compact.inline": "false",
        }
        self.ours, self.hudi, self.hudi_rs = s3_peers(OURS), s3_peers(HUDI), HudiRs(server)
        self.rows: dict[int, str] = {}

    def upsert(self, first: int, end: int, name: str, ts: int, by_hudi: bool = False) -> None:
        """Rows of a range of ids, and what everybody reads then."""
        if by_hudi:
            self.hudi.write_into(self.place, rows(first, end, name, ts))
        else:
            self.ours.write(self.place, rows(first, end, name, ts), self.options)
        self.rows |= {i: f"{name}{i}" for i in range(first, end)}
        self.check()

    def delete(self, first: int, end: int, ts: int) -> None:
        given = {**self.options, "hoodie.datasource.write.operation": "delete"}
        self.ours.write(self.place, rows(first, end, "gone", ts), given)
        for i in range(first, end):
            del self.rows[i]
        self.check()

    def check(self) -> None:
        """The rows for each reader, and that each file is of a commit."""
        for reader in (self.ours, self.hudi, self.hudi_rs):
            seen = reader.read(self.place).rows
            assert sorted((row["id"], row["name"]) for row in seen) == sorted(self.rows.items())
        named, found = named_and_found(self.place)
        assert {path for path in found - named if "/.heartbeat/" not in path} == set()

    def compact(self, op: str) -> set[str]:
        """As a job without Spark does it."""
        found = pyhudi.compact(
            self.place.uri,
            op=op,
            options={"hoodie.log.compaction.blocks.threshold": "2"},
            hadoop_options=self.place.server.hadoop_options,
        )
        self.check()
        return {each.fate.value for each in found}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", [6, 9])
def test_logs_on_s3_are_written_merged_and_compacted(
    version: int, server: S3Server, s3_peers: Peers
) -> None:
    table = Logged(server, s3_peers, version)
    table.upsert(0, 60, "first", 1)
    table.upsert(0, 30, "second", 2)
    table.upsert(10, 40, "third", 3, by_hudi=True)
    table.delete(5, 15, 4)
    if version > 6:
        assert "compacted" in table.compact("scheduleAndLogCompact")
    table.upsert(20, 70, "fourth", 5)

    # A write whose tasks fail after some of them have written logs.
    fails = "if(id = 29, raise_error('no'), concat('changed', id))"
    with pytest.raises(PeerError, match="no"):
        table.ours.sql(f"update pyhudi.`{table.place.uri}` set name = {fails}, ts = 6")
    table.check()

    assert table.compact("scheduleAndRun") == {"compacted"}
    table.upsert(50, 80, "fifth", 7, by_hudi=True)
    call = f"call pyhudi.system.run_compaction(table => '{table.place.uri}')"
    assert {row["fate"] for row in table.ours.sql(call).rows} == {"compacted"}
    table.upsert(75, 85, "sixth", 8)
