"""A real HDFS, name node and data node in one JVM: the storage contract on it, and Spark's reads.

Workers would need Hadoop's native libhdfs to write data files, which no Maven repository has; what
the driver does is all here, and what Spark's own reader does.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from integration.peers import PeerError, SparkPeer, maven, pyhudi_on_spark
from pyhudi.errors import FileExists, StorageError
from pyhudi.storage.base import Storage
from pyhudi.storage.hadoop import HadoopStorage
from tests.contracts import test_storage_contract as contract
from tests.golden_tables import BY_NAME
from tests.hadoop_jvm import HadoopJvm, hadoop_jvm

pytestmark = pytest.mark.matrix

MINICLUSTER = "org.apache.hadoop:hadoop-client-minicluster:3.3.4"
WITH_COLON = [path for path in contract.AWKWARD_PATHS if ":" in path]

_numbers = itertools.count()


@dataclass(frozen=True)
class Hdfs:
    """The running cluster, the client beside it, and where it listens."""

    client: HadoopJvm
    cluster: Any
    uri: str

    def new_table(self) -> HadoopStorage:
        """The storage of an empty table that nobody else uses."""
        return self.client.storage(f"{self.uri}/{next(_numbers)}/a table=50% ö")


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    folder = tmp_path_factory.mktemp("hdfs")
    with hadoop_jvm(maven.jar(MINICLUSTER), heap_mb=512) as running:
        conf = running.conf
        conf.set("hdfs.minidfs.basedir", str(folder))
        # So that a name node that is gone is noticed at once.
        conf.set("ipc.client.connect.max.retries", "0")
        conf.set("ipc.client.connect.retry.interval", "1")
        builder = running.jvm.org.apache.hadoop.hdfs.MiniDFSCluster.Builder(conf)
        cluster = builder.numDataNodes(1).format(True).build()
        cluster.waitActive()
        yield Hdfs(running, cluster, f"hdfs://localhost:{cluster.getNameNodePort()}")
        cluster.shutdown()


@pytest.fixture
def storage(hdfs: Hdfs) -> Storage:
    """What the contract suite runs on."""
    return hdfs.new_table()


# The suite itself, less the one test that HDFS cannot pass in full.
SIGNS = "test_a_path_may_hold_any_script_and_sign"
globals().update(
    {name: test for name, test in vars(contract).items() if name.startswith("test_")}
    | {SIGNS: None}
)


@pytest.mark.parametrize("path", [p for p in contract.AWKWARD_PATHS if p not in WITH_COLON])
def test_a_path_may_hold_any_script_and_all_signs_but_the_colon(
    storage: Storage, path: str
) -> None:
    contract.test_a_path_may_hold_any_script_and_sign(storage, path)


def test_a_colon_is_refused_by_hdfs_with_its_own_words(storage: Storage) -> None:
    (path,) = WITH_COLON
    with pytest.raises(StorageError, match="is not a valid DFS filename") as refused:
        storage.put_if_absent(path, b"")
    assert "outcome" not in refused.value.facts


def test_what_a_cancelled_statement_undoes_is_undone_on_its_interrupted_thread(
    hdfs: Hdfs,
) -> None:
    storage, own = hdfs.new_table(), hdfs.client.jvm.java.lang.Thread
    own.currentThread().interrupt()
    storage.put_if_absent("a/b", b"1")
    storage.replace("a/b", b"2")
    assert storage.read("a/b") == b"2"
    assert [file.path for file in storage.walk("")] == ["a/b"]
    storage.delete(["a/b"])
    assert storage.list("a") == []
    storage.delete_folder("a")
    assert own.interrupted(), "the statement still has to end as cancelled"


def test_of_many_processes_at_one_name_one_wins(hdfs: Hdfs) -> None:
    """Clients of their own, without a lock of this JVM between them: the name node decides."""
    root = hdfs.new_table().root
    with hadoop_jvm() as second, hadoop_jvm() as third:
        clients = [hdfs.client.storage(root), second.storage(root), third.storage(root)]
        for one in clients:
            one.walk("")
        for name in range(10):
            won = race([partial(one.put_if_absent, str(name), b"1") for one in clients])
            assert won == 1
    assert len(clients[0].list("")) == 10


def race(calls: list[Callable[[], None]]) -> int:
    """How many of ``calls``, started at once, did not find the name taken."""
    start = threading.Barrier(len(calls))
    won: list[int] = []

    def run(call: Callable[[], None]) -> None:
        start.wait()
        try:
            call()
        except FileExists:
            return
        won.append(1)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(won)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkPeer]:
    """pyhudi on Spark, without libhdfs even where the machine has it."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ARROW_LIBHDFS_DIR", str(tmp_path_factory.mktemp("none")))
        environment.delenv("HADOOP_HOME", raising=False)
        running = pyhudi_on_spark()
    yield running
    running.close()


def uploaded(hdfs: Hdfs, name: str) -> str:
    """The root of a golden table on HDFS."""
    storage = hdfs.client.storage(f"{hdfs.uri}/golden/{next(_numbers)}/{name}")
    for path, data in BY_NAME[name].files().items():
        storage.put_if_absent(path, data)
    (properties,) = (f.path for f in storage.walk("") if f.name == "hoodie.properties")
    return f"{storage.root}/{properties}".removesuffix("/.hoodie/hoodie.properties")


COLUMNS = ("_hoodie_record_key", "_hoodie_commit_time", "_hoodie_file_name")


@pytest.mark.parametrize(
    "name",
    ["h120_v9-cow_part", "h0150_v6-cow_bloom", "h120_v9-mor_log", "h0150_v6-mor_log"],
)
def test_spark_reads_a_table_on_hdfs_by_its_uri(hdfs: Hdfs, peer: SparkPeer, name: str) -> None:
    answer = peer.read(uploaded(hdfs, name))  # type: ignore[arg-type]

    expected = BY_NAME[name].expected()
    assert expected
    assert {tuple(row[c] for c in COLUMNS) for row in answer.rows} == {
        tuple(row[c] for c in COLUMNS) for row in expected
    }
    assert len(answer.rows) == len(expected)


@pytest.mark.parametrize("name", ["h120_v9-mor_np", "h0150_v6-mor_np"])
def test_logs_on_hdfs_are_not_read_without_libhdfs_and_base_files_are(
    hdfs: Hdfs, peer: SparkPeer, name: str
) -> None:
    root = uploaded(hdfs, name)
    with pytest.raises(PeerError, match=r"UNSUPPORTED_TABLE.*libhdfs.*CLASSPATH"):
        peer.read(root)  # type: ignore[arg-type]

    optimized = {"hoodie.datasource.query.type": "read_optimized"}
    assert peer.read(root, optimized).rows  # type: ignore[arg-type]


@pytest.mark.parametrize("op", ["scheduleAndRun", "scheduleAndLogCompact"])
def test_a_compaction_without_libhdfs_says_what_to_set_and_leaves_no_plan(
    hdfs: Hdfs, peer: SparkPeer, op: str
) -> None:
    root = uploaded(hdfs, "h120_v9-mor_bucket")
    storage = hdfs.client.storage(root)
    before = {file.path for file in storage.walk("")}
    peer.sql("set hoodie.log.compaction.blocks.threshold=2")

    call = f"call pyhudi.system.run_compaction(table => '{root}', op => '{op}')"
    with pytest.raises(PeerError, match=r"UNSUPPORTED_TABLE.*libhdfs.*CLASSPATH"):
        peer.sql(call)

    assert {file.path for file in storage.walk("")} == before


def test_a_write_without_libhdfs_says_what_to_set_and_leaves_nothing(
    hdfs: Hdfs, peer: SparkPeer
) -> None:
    storage = hdfs.client.storage(f"{hdfs.uri}/written")
    rows = pa.table({"id": [1, 2], "name": ["a", "b"]})
    options = {
        "hoodie.table.name": "written",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.operation": "bulk_insert",
    }

    with pytest.raises(PeerError, match=r"UNSUPPORTED_TABLE.*libhdfs.*CLASSPATH"):
        peer.write(storage.root, rows, options)  # type: ignore[arg-type]

    assert storage.walk("") == []


def test_z_without_a_name_node_a_put_has_failed_and_a_read_says_why(hdfs: Hdfs) -> None:
    """The last one, since it stops the cluster."""
    storage = hdfs.new_table()
    storage.put_if_absent("a", b"1")
    hdfs.cluster.shutdownNameNodes()

    with pytest.raises(StorageError, match="Cannot read"):
        storage.read("a")
    with pytest.raises(StorageError, match="Cannot create") as failed:
        storage.put_if_absent("b", b"2")
    assert "outcome" not in failed.value.facts
