"""Attaches pyhudi to a Spark session: ``configure`` before it exists, ``attach`` afterwards.

Only this package imports py4j; the planner gets what it needs from Spark as a ``Runtime``.
"""

from __future__ import annotations

import atexit
import os
import secrets
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from pyhudi.application.application_markers import Addresses, ApplicationMarkers
from pyhudi.application.commit_notice import Callback
from pyhudi.application.last_commit import WrittenCommit
from pyhudi.application.runtime import Runtime, never_cancelled
from pyhudi.clock import Clock, SystemClock
from pyhudi.config import WriteOptions
from pyhudi.errors import SetupError
from pyhudi.locks.base import TableLock
from pyhudi.locks.cancelling import CancellableClock
from pyhudi.locks.open import LockOpener
from pyhudi.rows.announce import reaches
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.services.file_systems import filesystems
from pyhudi.spark import typed_errors, worker_functions
from pyhudi.spark.endpoint import Endpoint, keep_endpoints
from pyhudi.spark.hadoop_files import Py4JHadoopFiles, hadoop_files
from pyhudi.spark.handlers import Handlers
from pyhudi.spark.installation import (
    bring_jar,
    check_before_start,
    check_running,
    missing_jar,
)
from pyhudi.spark.jars import jar_for
from pyhudi.spark.jobs import SparkJobs, live
from pyhudi.spark.main_thread import interruptible
from pyhudi.spark.protocol import VERSION
from pyhudi.spark.sessions import AttachedSession, Sessions
from pyhudi.storage.base import Storage
from pyhudi.storage.open import bucket_of, normalize_root, open_storage
from pyhudi.storage.s3_settings import option_names
from pyhudi.timeline.table import Table
from pyhudi.writes.stage import job

if TYPE_CHECKING:
    Builder = Any

JARS = "spark.jars"
CATALOG = "spark.sql.catalog.spark_catalog"
CATALOG_CLASS = "io.pyhudi.HudiSessionCatalog"
#: tables by their paths in SQL: pyhudi.`s3a://bucket/trips`
PATH_CATALOG = "spark.sql.catalog.pyhudi"
PATH_CATALOG_CLASS = "io.pyhudi.HudiPathCatalog"
#: the session serves Apache Hudi's name too
AS_HUDI = "spark.pyhudi.as.hudi"
EXTENSIONS = "spark.sql.extensions"
#: statements of Hudi's SQL that Spark's own rules do not take
EXTENSION = "io.pyhudi.HudiExtension"
#: set in the builder of a Connect client
REMOTE = "spark.remote"
#: Spark's progress bar; by default Spark shows it only in its shells
PROGRESS = "spark.ui.showConsoleProgress"
#: with it, setuptools leaves Python's ``distutils`` as it is in Python workers
WORKERS_DISTUTILS = "spark.executorEnv.SETUPTOOLS_USE_DISTUTILS"
#: rows in each Arrow batch for Python workers: larger batches cost less per row
ARROW_BATCH_ROWS = "65536"

PROBE_S = 5.0

_attached: dict[int, Handlers] = {}
_guard = threading.Lock()


def configure(builder: Builder, *, as_hudi: bool = False) -> Builder:
    """Add pyhudi's jar, catalog and worker settings to a ``SparkSession.builder``.

    Call it before ``getOrCreate``, which then also attaches the session. The builder's own jars
    stay. With ``as_hudi`` the session serves ``format("hudi")`` and ``USING hudi`` too, unless
    Apache Hudi's bundle is on the class path. ``SetupError`` if no jar fits the installed Spark, if
    Java is missing or has a wrong version, or if the builder sets another session catalog.
    """
    if not _has_jvm():
        check_before_start()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = spark_conf()
    given = getattr(builder, "_options", {})
    if given.get(CATALOG, CATALOG_CLASS) != CATALOG_CLASS:
        raise SetupError(
            f"The builder sets {CATALOG} to {given[CATALOG]}, but a session has only one such "
            f"catalog. Leave it out; or, to work without SQL on pyhudi tables, set {JARS} to "
            f"{settings[JARS]} instead of calling configure, then call pyhudi.attach(spark).",
        )
    if sys.stderr.isatty() and PROGRESS not in given:
        settings[PROGRESS] = "true"
    if _compares_by_distutils() and WORKERS_DISTUTILS not in given:
        settings[WORKERS_DISTUTILS] = "stdlib"
    jars = [j for j in given.get(JARS, "").split(",") if j]
    settings[JARS] = ",".join(dict.fromkeys([*jars, settings[JARS]]))
    if as_hudi:
        settings[AS_HUDI] = "true"
    others = [name for name in given.get(EXTENSIONS, "").split(",") if name]
    settings[EXTENSIONS] = ",".join(dict.fromkeys([*others, EXTENSION]))
    for key, value in settings.items():
        builder = builder.config(key, value)
    builder.getOrCreate = partial(_created, builder)
    return builder


def _compares_by_distutils() -> bool:
    """Whether each worker of this PySpark imports ``distutils``, and this Python has it.

    It compares two versions. With setuptools that imports all of it, a tenth of a CPU second for
    each new worker.
    """
    return pyspark.__version__.startswith("3.") and sys.version_info < (3, 12)


def _created(builder: Builder) -> Any:
    """The builder's session, attached; a remote one needs no attach."""
    if _has_idle_jvm() and REMOTE not in builder._options and "SPARK_REMOTE" not in os.environ:
        SparkContext._ensure_initialized()
        bring_jar(SparkContext._jvm, jar_for(pyspark.__version__))
    session = type(builder).getOrCreate(builder)
    return attach(session) if isinstance(session, SparkSession) else session


def _has_idle_jvm() -> bool:
    """Whether there is a JVM without an application, as in the beginning under spark-submit."""
    return _has_jvm() and SparkContext._active_spark_context is None


def _has_jvm() -> bool:
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def spark_conf(version: str | None = None) -> dict[str, str]:
    """The settings of an application of that Spark, by default of the installed one."""
    return {
        JARS: str(jar_for(version or pyspark.__version__)),
        CATALOG: CATALOG_CLASS,
        PATH_CATALOG: PATH_CATALOG_CLASS,
        EXTENSIONS: EXTENSION,
        "spark.sql.execution.arrow.maxRecordsPerBatch": ARROW_BATCH_ROWS,
    }


def attach(spark: SparkSession) -> SparkSession:
    """Register this program as the planner of the session's JVM; returns the session.

    The sessions of ``configure`` are attached. Any other session with the jar works as well: its
    planner is a process of its own. ``on_commit``, ``last_commit`` and ``except CommitConflict``
    need the planner in the program itself. Idempotent. ``SetupError`` if the jar is not on the
    driver's class path, or is for another Spark line.
    """
    check_running(spark)
    context = spark.sparkContext
    bridge = _bridge(context)
    with _guard:
        if id(context) in _attached and bridge.isRegistered():
            return spark
        handlers = serve(spark, AttachedSession(spark), bridge)
        interruptible(spark)
        for number, before in _attached.items():
            if number != id(context):
                before.close()  # its JVM may have died without a stop
        _attached[id(context)] = handlers
        _end_with(context, handlers)
    for key, catalog in ((CATALOG, CATALOG_CLASS), (PATH_CATALOG, PATH_CATALOG_CLASS)):
        if spark.conf.get(key, None) is None:
            spark.conf.set(key, catalog)
    return spark


def serve(spark: SparkSession, sessions: Sessions, registry: Any) -> Handlers:
    """Answer the questions of ``sessions`` from now on.

    ``spark`` is any session of the application, ``registry`` the JVM's object to register with.
    """
    context = spark.sparkContext
    runtime = spark_runtime(spark, sessions.cancelled)
    handlers = Handlers(sessions, runtime)
    secret = secrets.token_urlsafe(32)
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
    keep_endpoints(context._gateway)
    worker_functions.register()
    typed_errors.install()
    SparkJobs(spark).install()
    _register(registry, Endpoint(secret, handlers.table()), secret)
    return handlers


def _register(registry: Any, endpoint: Endpoint, secret: str) -> None:
    """Connect the jar to ``endpoint``; ``SetupError`` if the jar has another protocol version."""
    try:
        jar = str(registry.protocol())
    except Py4JError:
        jar = "none"  # the jar is older than protocol versions
    if jar != VERSION:
        raise SetupError(
            f"The jar has version {jar} of pyhudi's protocol, and the Python package has version "
            f"{VERSION}. Install one version of both."
        )
    registry.register(endpoint, secret, VERSION)


def on_commit(spark: SparkSession, callback: Callback) -> Callable[[], None]:
    """Call ``callback`` with a ``CommitNotice`` after each commit of this Spark application.

    It is called when the commit is visible, in the writer's thread; its errors are logged and
    change nothing. The returned function removes it. ``SetupError`` if the session is not attached.
    """
    return runtime_of(spark).callbacks.add(callback)


def last_commit(spark: SparkSession) -> WrittenCommit | None:
    """The last commit of this Spark application, by SQL or a DataFrame; None before the first.

    Its numbers are those of ``pyhudi.Table.commit``, with the time that it waited for the lock and
    the number of retries. ``SetupError`` if the session is not attached.
    """
    return runtime_of(spark).last_commit.written


def runtime_of(spark: SparkSession) -> Runtime:
    """The planner's ``Runtime`` in this application; ``SetupError`` if it is not attached."""
    handlers = _attached.get(id(spark.sparkContext))
    if handlers is None:
        raise SetupError(
            "pyhudi is not attached to this Spark session. Call pyhudi.attach(spark) first."
        )
    return handlers.runtime


def _jvm(context: SparkContext) -> Any:
    return context._jvm


def _bridge(context: SparkContext) -> Any:
    try:
        bridge = _jvm(context).io.pyhudi.Bridge
        bridge.isRegistered()
    except (Py4JError, TypeError) as e:
        raise missing_jar(jar_for(pyspark.__version__)) from e
    return bridge


def spark_runtime(spark: SparkSession, cancelled: Callable[[], bool] = never_cancelled) -> Runtime:
    """The planner's environment in this session; ``cancelled`` is that of ``Runtime``."""
    hadoop = HadoopOptions(spark)
    clock = SystemClock()
    patient = CancellableClock(cancelled)

    def storage(root: str) -> Storage:
        live(spark)  # every question opens a table first, so a stopped session is noticed here
        return open_storage(root, hadoop.s3a(normalize_root(root)), clock, hadoop.files)

    locks = LockOpener(patient, storage)

    def lock(table: Table, options: WriteOptions) -> TableLock:
        return locks.open(options.lock, table.config.name, table.storage)

    def group_lock(table: Table, options: WriteOptions) -> Callable[[str], TableLock]:
        return locks.groups(options.lock, table.config.name, table.storage)

    def filesystem(root: str) -> tuple[FileSystemSpec, str]:
        if root.startswith(("/", "s3a://")):
            return filesystems(hadoop.s3a(root))(root)
        return hadoop_filesystem(root)

    markers = application_markers(spark, clock)
    return Runtime(
        patient,
        storage,
        filesystem,
        lock,
        SparkJobs(spark),
        markers,
        spark_errors=(PySparkException, Py4JJavaError),
        group_lock=group_lock,
        cancelled=cancelled,
    )


def application_markers(spark: SparkSession, clock: Clock) -> ApplicationMarkers:
    """The marker service of this application, at the driver's address for executors.

    With a local master the executors run in the driver, so the loopback interface is enough.
    """
    conf = spark.sparkContext.getConf()
    master = str(conf.get("spark.master"))
    if master.startswith("local") and not master.startswith("local-cluster"):
        return ApplicationMarkers(
            clock, Addresses(), lambda host, port, token: reaches(host, port, token, PROBE_S)
        )
    host = str(conf.get("spark.driver.host"))
    bind = str(conf.get("spark.driver.bindAddress", host))

    def probe(host: str, port: int, token: str) -> bool:
        def ask(_: object) -> list[bool]:
            return [reaches(host, port, token, PROBE_S)]

        context = spark.sparkContext
        with job(spark, "pyhudi: do executors reach the driver"):
            return all(context.parallelize([0], 1).mapPartitions(ask).collect())

    return ApplicationMarkers(clock, Addresses(bind, host), probe)


def _end_with(context: SparkContext, handlers: Handlers) -> None:
    """End what runs for the application with it. PySpark has no hook, so ``stop`` is wrapped."""
    stop, markers = context.stop, handlers.runtime.markers

    def stop_all() -> None:
        if markers is not None:
            markers.stop()
        try:
            stop()
        finally:
            handlers.close()

    context.stop = stop_all  # type: ignore[method-assign]
    if markers is not None:
        atexit.register(markers.stop)


class HadoopOptions:
    """The session's settings of Hadoop's file systems, read from the JVM on demand."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def s3a(self, root: str) -> dict[str, str]:
        """The ``fs.s3a.*`` settings for the table at ``root``; none if it is not on S3."""
        if not root.startswith("s3a://"):
            return {}
        conf = self._conf()
        found = {key: conf.get(key) for key in option_names(bucket_of(root))}
        return {key: str(value) for key, value in found.items() if value is not None}

    def files(self, root: str) -> Py4JHadoopFiles:
        """The folder ``root`` through Hadoop's client; ``UnsupportedTable`` if that fails."""
        return hadoop_files(live(self._spark)._jvm, self._conf(), root)

    def _conf(self) -> Any:
        return live(self._spark)._jsc.hadoopConfiguration()


def hadoop_filesystem(root: str) -> tuple[FileSystemSpec, str]:
    """The same folder for pyarrow, through the libhdfs of the machine that opens it."""
    scheme, _, rest = root.partition("://")
    authority, slash, path = rest.partition("/")
    return FileSystemSpec("hdfs", {"host": f"{scheme}://{authority}"}), slash + path
