"""Hadoop's client as a storage: what its contract suite does not ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyhudi.errors import ConfigError, StorageError, UnsupportedTable
from pyhudi.spark.hadoop_files import kind_of
from pyhudi.storage.hadoop import HadoopStorage, Refused
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.open import open_storage
from tests.fakes import FakeClock
from tests.hadoop_jvm import HadoopJvm, hadoop_jvm

jvm = pytest.mark.spark
pytestmark = pytest.mark.usefixtures("plain_py4j")


@pytest.fixture(scope="module")
def hadoop() -> Iterator[HadoopJvm]:
    with hadoop_jvm() as running:
        yield running


class Deaf:
    """Files that a network keeps from answering, or that ``error`` keeps."""

    def __init__(self, error: OSError | None = None) -> None:
        self.error = error or ConnectionError("timed out")

    def __getattr__(self, name: str) -> object:
        def call(*_: object) -> None:
            raise self.error

        return call


@pytest.mark.parametrize("call", ["put_if_absent", "replace"])
@pytest.mark.parametrize("error", [ConnectionError("timed out"), OSError("timed out")], ids=repr)
def test_a_put_without_an_answer_has_an_unknown_outcome(call: str, error: OSError) -> None:
    storage = HadoopStorage("hdfs://nn/t", Deaf(error), FakeClock())  # type: ignore[arg-type]

    with pytest.raises(
        StorageError, match=r"'hdfs://nn/t/a/b' got no answer \(timed out\)"
    ) as lost:
        getattr(storage, call)("a/b", b"")

    assert not lost.value.had_no_effect


@pytest.mark.parametrize("call", ["put_if_absent", "replace"])
@pytest.mark.parametrize("error", [Refused("quota"), FileNotFoundError("quota")], ids=repr)
def test_a_put_that_the_shim_knows_to_have_failed_is_a_known_failure(
    call: str, error: OSError
) -> None:
    storage = HadoopStorage("hdfs://nn/t", Deaf(error), FakeClock())  # type: ignore[arg-type]

    with pytest.raises(StorageError, match="'hdfs://nn/t/a/b': quota") as failed:
        getattr(storage, call)("a/b", b"")

    assert failed.value.had_no_effect


class Thrown:
    """A Java exception as py4j shows it, of a class with these superclasses."""

    def __init__(self, *classes: str) -> None:
        self.classes = classes

    def getClass(self) -> Thrown:  # noqa: N802 - Java's name
        return self

    def getName(self) -> str:  # noqa: N802
        return self.classes[0]

    def getSuperclass(self) -> Thrown | None:  # noqa: N802
        return Thrown(*self.classes[1:]) if self.classes[1:] else None


@pytest.mark.parametrize(
    ("classes", "kind"),
    [
        (("java.io.FileNotFoundException", "java.io.IOException"), FileNotFoundError),
        (("io.pyhudi.HadoopFiles$Taken", "java.io.IOException"), FileExistsError),
        (("io.pyhudi.HadoopFiles$NoAnswer", "java.io.IOException"), ConnectionError),
        (("org.apache.hadoop.x.QuotaExceeded", "java.io.IOException"), Refused),
        (("java.lang.IllegalStateException", "java.lang.Exception"), ConnectionError),
        (("java.lang.NullPointerException",), ConnectionError),
    ],
)
def test_only_an_exception_after_which_the_shim_has_looked_is_a_refusal(
    classes: tuple[str, ...], kind: type[OSError]
) -> None:
    assert kind_of(Thrown(*classes)) is kind


def test_a_read_without_an_answer_has_no_outcome_to_know() -> None:
    storage = HadoopStorage("hdfs://nn/t", Deaf(), FakeClock())  # type: ignore[arg-type]

    with pytest.raises(StorageError, match="Cannot read 'hdfs://nn/t/a': timed out") as lost:
        storage.read("a")

    assert lost.value.had_no_effect


@jvm
def test_a_refused_put_leaves_nothing_and_tells_what_java_told(
    hadoop: HadoopJvm, tmp_path: Path
) -> None:
    storage = hadoop.storage(f"raw://{tmp_path}/t")
    storage.put_if_absent("file", b"")

    for call in (storage.put_if_absent, storage.replace):
        with pytest.raises(StorageError, match=r"'raw://.*/t/file/below'") as failed:
            call("file/below", b"")
        assert failed.value.had_no_effect

    assert [path.name for path in (tmp_path / "t").rglob("*")] == ["file"]


@jvm
def test_a_name_is_given_by_renaming_a_temporary_file(hadoop: HadoopJvm, tmp_path: Path) -> None:
    """A temporary name that is in use is never written over, and no name shows half a file."""
    clock = FakeClock()
    storage = hadoop.storage(f"raw://{tmp_path}/t", clock)
    taken = tmp_path / "t" / f".pyhudi-tmp-{FakeClock().uuid()}"
    taken.parent.mkdir()
    taken.write_bytes(b"somebody's")

    with pytest.raises(StorageError, match="Cannot create"):
        storage.put_if_absent("name", b"new")

    assert storage.walk("") == []
    assert taken.read_bytes() == b"somebody's"
    storage.put_if_absent("name", b"new")
    assert storage.read("name") == b"new"


@jvm
def test_many_files_are_deleted_by_one_call(hadoop: HadoopJvm, tmp_path: Path) -> None:
    storage = hadoop.storage(f"raw://{tmp_path}/t")
    names = [f"p/{n:03}" for n in range(50)]
    for name in names:
        (tmp_path / "t" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / name).touch()

    storage.delete([*names[1:], "p/absent"])

    assert [file.path for file in storage.walk("")] == names[:1]


@jvm
def test_a_file_system_that_the_jvm_does_not_know_is_refused_with_what_to_set(
    hadoop: HadoopJvm,
) -> None:
    with pytest.raises(UnsupportedTable, match=r'"nosuch".*spark\.jars.*fs\.nosuch') as refused:
        hadoop.storage("nosuch://host/t")

    assert refused.value.facts["feature"] == "nosuch: file system"


@pytest.mark.parametrize("path", ["gs://bucket/t", "wasbs://c@a/t", "oss://b/t"])
def test_stores_that_only_imitate_renames_are_refused_by_name(path: str) -> None:
    scheme = path.split(":")[0]
    with pytest.raises(UnsupportedTable, match=f"does not keep tables on '{scheme}:'"):
        open_storage(path, {})


def test_without_a_jvm_the_error_says_what_is_reached_without() -> None:
    with pytest.raises(UnsupportedTable, match="Only a Spark session"):
        open_storage("hdfs://nn:8020/t", {})


def test_a_relative_path_on_a_cluster_is_refused() -> None:
    with pytest.raises(ConfigError, match="not absolute"):
        open_storage("hdfs:trips", {})


@jvm
def test_a_path_without_a_scheme_means_the_default_file_system(hadoop: HadoopJvm) -> None:
    qualified = hadoop.jvm.io.pyhudi.HadoopFiles.qualified
    conf = hadoop.jvm.org.apache.hadoop.conf.Configuration()
    assert qualified("/data/t", conf) == "/data/t"

    conf.set("fs.defaultFS", "hdfs://nn:8020")

    assert qualified("/data/t=1%2F", conf) == "hdfs://nn:8020/data/t=1%2F"
    assert qualified("file:/data/t", conf) == "file:/data/t"
    assert qualified("s3a://b/t", conf) == "s3a://b/t"
    assert qualified("trips", conf) == "trips"


@jvm
@pytest.mark.parametrize("change", ["replace", "delete and put"])
def test_what_hadoop_wrote_locally_it_still_reads_after_a_change_by_local_storage(
    hadoop: HadoopJvm, tmp_path: Path, change: str
) -> None:
    """Hadoop checks a file against the checksums beside it, which must never be stale."""
    hadoops, path = hadoop.local(), hadoop.path(str(tmp_path / "hoodie.properties"))
    out = hadoops.create(path)
    out.write(b"what Hudi wrote\n" * 100)
    out.close()
    checksum = tmp_path / ".hoodie.properties.crc"
    assert checksum.exists()
    storage = LocalStorage(str(tmp_path))

    if change == "replace":
        storage.replace("hoodie.properties", b"what pyhudi wrote")
    else:
        storage.delete(["hoodie.properties"])
        assert not checksum.exists()
        storage.put_if_absent("hoodie.properties", b"what pyhudi wrote")

    with_checksum = hadoops.open(path)
    read = bytes(with_checksum.readNBytes(100))
    with_checksum.close()
    assert read == b"what pyhudi wrote"


@jvm
def test_a_stale_checksum_would_be_noticed(hadoop: HadoopJvm, tmp_path: Path) -> None:
    """The test above can fail: bytes that change under a checksum are refused by Hadoop."""
    from py4j.protocol import Py4JJavaError

    hadoops, path = hadoop.local(), hadoop.path(str(tmp_path / "f"))
    out = hadoops.create(path)
    out.write(b"what Hudi wrote")
    out.close()
    (tmp_path / "f").write_bytes(b"something else!")

    source = hadoops.open(path)
    with pytest.raises(Py4JJavaError) as refused:
        source.readNBytes(100)
    source.close()
    assert "ChecksumException" in refused.value.java_exception.getClass().getName()
