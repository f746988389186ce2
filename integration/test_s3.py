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

from integration.killed_writer import OPTIONS
from integration.matrix.script import all_cells, play
from integration.peers import HudiRs, SparkPeer, apache_hudi, maven, pyhudi_on_spark
from integration.peers.spark import child_environment
from integration.peers.tables import S3Place
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
    found = {p for p in paths if p.endswith(".parquet") and not p.startswith(".hoodie/")}
    found |= {p for p in paths if p.startswith(traces)}
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
    s3_peers(OURS).write(place, rows(0, 200, "first", 1), OPTIONS)
    kill(place, tmp_path, *step)
    named, found = named_and_found(place)
    assert found - named, "it has left something"

    if survivor == HUDI:
        s3_peers(HUDI).write_into(place, rows(250, 260, "next", 3))
    else:
        s3_peers(survivor).write(place, rows(250, 260, "next", 3), OPTIONS)

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
