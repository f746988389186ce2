"""A Java, Spark or jar that does not fit is told at once, in words that help."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

import pyhudi
from pyhudi.errors import SetupError
from pyhudi.spark import session as session_module
from pyhudi.spark.installation import check_before_start, check_running, java_program, java_version
from pyhudi.spark.jars import LINES, NEWEST, jar_for, spark_line
from pyhudi.spark.session import AS_HUDI, PROGRESS, WORKERS_DISTUTILS, spark_conf
from pyhudi.spark.sessions import AttachedSession
from tests.process_facts import answer_to
from tests.spark.tables import Lake, rows_of

TESTED = [line.tested for line in LINES.values()]


def java(folder: Path, release: str | None = None, program: str = "#!/bin/sh\n") -> Path:
    """A Java of our making: its home, with a ``release`` file where a version is given."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text(program)
    (folder / "bin" / "java").chmod(0o755)
    if release is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="Anyone"\nJAVA_VERSION="{release}"\n')
    return folder


@pytest.mark.parametrize("release", ["17", "17.0.15", "21.0.2"])
def test_a_java_that_fits_is_taken(release: str, tmp_path: Path) -> None:
    check_before_start({"JAVA_HOME": str(java(tmp_path / "jdk", release))})


@pytest.mark.parametrize(("release", "shown"), [("1.8.0_402", 8), ("11.0.22", 11), ("27", 27)])
def test_a_java_that_does_not_fit_is_named(release: str, shown: int, tmp_path: Path) -> None:
    home = java(tmp_path / "jdk", release)
    with pytest.raises(SetupError, match=f"is Java {shown}, and pyhudi needs Java 17") as error:
        check_before_start({"JAVA_HOME": str(home)})
    assert str(home) in str(error.value)


def test_without_any_java_the_message_says_so() -> None:
    with pytest.raises(SetupError, match="There is no Java: JAVA_HOME is not set"):
        check_before_start({"PATH": ""})


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=f"JAVA_HOME is {tmp_path}, but there is no program"):
        check_before_start({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})


def test_java_is_found_on_the_path_through_links(tmp_path: Path) -> None:
    home = java(tmp_path / "jdk", "11.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    program = java_program({"PATH": str(tmp_path / "bin")})
    assert java_version(program) == 11


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    talks = "#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n"
    home = java(tmp_path / "jdk", program=talks)
    assert java_version(home / "bin" / "java") == 11


def test_a_java_of_unknown_version_is_given_a_try(tmp_path: Path) -> None:
    check_before_start({"JAVA_HOME": str(java(tmp_path / "jdk"))})


def test_every_spark_line_has_its_jar() -> None:
    for line in LINES:
        assert jar_for(f"{line}.7").name.startswith(f"pyhudi-spark-{line}_")


@pytest.mark.parametrize("version", ["3.4.4", "3.10.0", "2.4.8", "of my own"])
def test_a_spark_without_a_jar_is_named_with_those_that_have_one(version: str) -> None:
    supported = ", ".join(LINES)
    with pytest.raises(SetupError, match=f"no jar for Spark {version}; it supports {supported}"):
        jar_for(version)


@pytest.mark.parametrize("version", ["4.10.1", "5.0.0"])
def test_a_newer_spark_is_tried_with_the_newest_jar_and_one_warning(
    version: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert jar_for(version) == jar_for(version) == jar_for(NEWEST.tested)
    (warning,) = caplog.records
    assert f"not tested on Spark {version}, but on {', '.join(TESTED)}." in warning.getMessage()


@pytest.mark.parametrize(("spark", "fits"), [("4.1.4", False), ("4.2.1", True), ("4.3.0", True)])
def test_java_25_fits_the_lines_whose_spark_runs_on_it(
    spark: str, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.__version__", spark)
    environment = {"JAVA_HOME": str(java(tmp_path / "jdk", "25.0.1"))}
    if fits:
        check_before_start(environment)
    else:
        with pytest.raises(SetupError, match=r"needs Java 17 \(up to 21 works\)"):
            check_before_start(environment)


def test_a_jar_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyhudi.spark.jars.FOLDER", tmp_path)
    with pytest.raises(SetupError, match="pyhudi-spark-3.5_2.12.jar is missing") as error:
        jar_for("3.5.1")
    assert str(tmp_path) in str(error.value)


def test_what_is_no_session_is_refused() -> None:
    with pytest.raises(SetupError, match="not a builtins.str"):
        pyhudi.attach("spark")  # type: ignore[arg-type]


def test_configure_keeps_the_jars_that_the_builder_has() -> None:
    builder = SparkSession.Builder().config("spark.jars", "/opt/mine.jar")
    options = pyhudi.configure(pyhudi.configure(builder))._options
    assert options["spark.jars"] == f"/opt/mine.jar,{jar_for(pyspark.__version__)}"


def test_configure_refuses_to_take_another_catalogs_place() -> None:
    key, other = "spark.sql.catalog.spark_catalog", "org.example.OtherCatalog"
    with pytest.raises(SetupError, match=f"sets {key} to {other}") as error:
        pyhudi.configure(SparkSession.Builder().config(key, other))
    assert str(jar_for(pyspark.__version__)) in str(error.value)
    pyhudi.configure(pyhudi.configure(SparkSession.Builder()))


@pytest.mark.spark
@pytest.mark.every_line
def test_a_session_that_fits_passes(spark: SparkSession) -> None:
    check_running(spark)


@pytest.mark.spark
@pytest.mark.every_line
def test_another_spark_in_the_jvm_than_in_python_is_told(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.__version__", "3.5.1" if spark.version[0] == "4" else "4.0.0")
    with pytest.raises(SetupError, match="SPARK_HOME points to another Spark"):
        check_running(spark)


STRANGER = """
import json, sys
from pyspark.sql import SparkSession
import pyhudi
jars = sys.argv[1]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = (builder.config("spark.jars", jars) if jars else builder).getOrCreate()
try:
    pyhudi.attach(spark)
    print(json.dumps("attached"))
except pyhudi.HudiError as e:
    print(json.dumps(str(e)))
spark.stop()
"""


def attach_with(jars: str) -> str:
    """What a driver of its own says that was started with ``jars``."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, jars], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    told: str = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.spark
@pytest.mark.every_line
def test_a_driver_without_the_jar_is_told_how_to_get_it() -> None:
    told = attach_with("")
    assert told.startswith("[SETUP_ERROR] The pyhudi jar is not on the class path")
    assert str(jar_for(pyspark.__version__)) in told


@pytest.mark.spark
@pytest.mark.every_line
def test_a_driver_with_the_jar_of_another_spark_is_told_which() -> None:
    own = spark_line(pyspark.__version__)
    other = next(line for line in LINES if line != own)
    told = attach_with(str(jar_for(other)))
    assert told.startswith(f"[SETUP_ERROR] The pyhudi jar on the class path is for Spark {other}")
    assert str(jar_for(own)) in told


SECOND = """
import sys
import pyhudi
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder.getOrCreate().stop()
spark = pyhudi.configure(builder).getOrCreate()
key = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.table.name": "t"}
spark.range(100_000).write.format("pyhudi").options(**key).save(sys.argv[1])
print(spark.read.format("pyhudi").load(sys.argv[1]).count())

def loaded(batches):
    import sys
    import pyarrow as pa
    names = ("_pyhudi_code", "pandas", "setuptools")
    found = [[name in sys.modules] for name in names]
    for batch in batches:
        yield pa.record_batch([pa.array(each) for each in found], names)

kinds = "_pyhudi_code boolean, pandas boolean, setuptools boolean"
print(*spark.range(1).coalesce(1).mapInArrow(loaded, kinds).first())
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.every_line
@pytest.mark.parametrize("pinned", ["true", "false"])
def test_configure_works_in_a_jvm_that_runs_already(tmp_path: Path, pinned: str) -> None:
    """Not pinned, a thread of Python has none of its own in the JVM."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment["PYSPARK_PIN_THREAD"] = pinned
    done = subprocess.run(
        [sys.executable, "-c", SECOND, str(tmp_path / "t")],
        capture_output=True, text=True, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    count, loaded = done.stdout.splitlines()[-2:]
    assert count == "100000"
    assert loaded == "True False False", "the worker that wrote did without what costs most"


UNATTACHED = """
import json, os, sys
from pyspark.sql import SparkSession
from tests.process_facts import marked
folder, *settings = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for setting in settings:
    builder = builder.config(*setting.split("=", 1))
path = os.environ["TABLE"] = folder + "/t"
spark = builder.getOrCreate()

def told(call):
    try:
        return call()
    except Exception as error:
        return str(error).splitlines()[0]

def planners():
    return sum("pyhudi.spark.gateway" in run for run in marked(path).values())

key = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.table.name": "t"}
rows = spark.range(3)
found = {"unasked": [
    told(lambda: spark.read.format("hudi").load(path)),
    told(lambda: rows.write.format("hudi").save(path)),
    told(lambda: spark.sql("create table a (id bigint) using hudi")),
]}
assert not spark.catalog.tableExists("a")
rows.write.format("pyhudi").options(**key).save(path)
rows.write.format("pyhudi").mode("append").save(path)
found["rows"] = spark.read.format("pyhudi").load(path).count()
found["planners"] = planners()
spark.conf.set("spark.pyhudi.as.hudi", "true")
found["as hudi"] = spark.read.format("hudi").load(path).count()
spark.sql("create table a (id bigint) using hudi tblproperties (primaryKey = 'id')")
spark.sql("insert into a values (1), (2)")
spark.sql("delete from a where id = 2")
rows.write.format("hudi").saveAsTable("b")
found["by name"] = [spark.table("a").count(), spark.table("b").count()]
import pyhudi
found["unknown"] = told(lambda: pyhudi.last_commit(spark))
pyhudi.attach(spark)
rows.write.format("pyhudi").mode("append").save(path)
found["after attach"] = pyhudi.last_commit(spark).table
found["planners after attach"] = planners()
print(json.dumps(found))
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.every_line
def test_a_program_that_knows_nothing_of_pyhudi_works_and_may_attach_later(tmp_path: Path) -> None:
    settings = {**spark_conf(), "spark.sql.warehouse.dir": str(tmp_path)}
    given = [f"{key}={value}" for key, value in settings.items()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", UNATTACHED, str(tmp_path), *given],
        capture_output=True, text=True, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for told in found.pop("unasked"):
        assert told.startswith("[CONFIG_ERROR] Apache Hudi's bundle is not on the class path"), told
        assert "spark.pyhudi.as.hudi" in told
    assert found.pop("unknown").startswith("[SETUP_ERROR] pyhudi is not attached")
    assert found == {
        "rows": 3, "planners": 1, "as hudi": 3, "by name": [1, 3],
        "after attach": "t", "planners after attach": 0,
    }  # fmt: skip


def test_threads_that_are_not_pinned_are_not_asked_for_their_session() -> None:
    session: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(_gateway=SimpleNamespace(_gateway_client=object()))
    )
    assert AttachedSession(session).asking() is session


@pytest.mark.parametrize(
    ("spark", "python", "compares"),
    [("3.5.1", (3, 11), True), ("3.5.1", (3, 12), False), ("4.0.0", (3, 11), False)],
)
def test_workers_import_distutils_only_where_pyspark_and_python_do(
    spark: str, python: tuple[int, int], compares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "pyspark", SimpleNamespace(__version__=spark))
    monkeypatch.setattr(session_module, "sys", SimpleNamespace(version_info=python))
    assert session_module._compares_by_distutils() == compares


def test_the_builders_own_distutils_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "_compares_by_distutils", lambda: True)
    configured = pyhudi.configure(SparkSession.Builder().config(WORKERS_DISTUTILS, "local"))
    assert configured._options[WORKERS_DISTUTILS] == "local"


def test_configure_serves_hudis_name_only_on_request() -> None:
    assert AS_HUDI not in pyhudi.configure(SparkSession.Builder())._options
    assert pyhudi.configure(SparkSession.Builder(), as_hudi=True)._options[AS_HUDI] == "true"


@pytest.mark.spark
@pytest.mark.every_line
def test_a_stranger_at_the_callback_port_gets_nothing_done(lake: Lake) -> None:
    gateway: Any = lake.spark.sparkContext._gateway
    port = gateway.get_callback_server().get_listening_port()
    ask = 'c\n{}\ncall\nsguess\nsexists\ns{{"path": "/"}}\ne\n'
    refused = 0
    for name in list(gateway.gateway_property.pool.dict):
        heard = answer_to(port, ask.format(name).encode())
        assert b"ok" not in heard, heard
        refused += b"wrong secret" in heard
        answer_to(port, f"g\n{name}\ne\n".encode())
    assert refused, "the secret is looked at before the question"

    table = lake.table()
    table.write(rows_of(0, 3, "a"))
    assert len(table.rows()) == 3


@pytest.mark.parametrize(
    ("terminal", "given", "shown"),
    [(True, {}, "true"), (True, {PROGRESS: "false"}, "false"), (False, {}, None)],
)
def test_work_shows_its_progress_where_somebody_looks(
    terminal: bool, given: dict[str, str], shown: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    builder = SparkSession.Builder()
    for key, value in given.items():
        builder = builder.config(key, value)
    assert pyhudi.configure(builder)._options.get(PROGRESS) == shown
