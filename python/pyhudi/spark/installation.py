"""Checks whether Java, Spark and the jar fit, before they fail with an obscure error.

``check_before_start`` runs before there is a JVM and starts none; ``check_running`` checks the JVM
of a session.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from pyhudi.errors import SetupError
from pyhudi.spark.jars import OLDEST_JAVA, jar_for, line_of, spark_line

VERSION_TIMEOUT_S = 30
BRIDGE_CLASS = "io/pyhudi/Bridge.class"

_VERSION = re.compile(r'version "?(\d+)(?:\.(\d+))?')
_JAR_NAME = re.compile(r"pyhudi-spark-(\d+\.\d+)_")


def check_before_start(environment: Mapping[str, str] = os.environ) -> None:
    """``SetupError`` if the Java that PySpark would start is missing or has a wrong version."""
    program = java_program(environment)
    version = java_version(program)
    newest = line_of(pyspark.__version__).newest_java
    if version is not None and not OLDEST_JAVA <= version <= newest:
        raise SetupError(
            f"{program} is Java {version}, and pyhudi needs {java_wanted()}. Install it and point "
            "JAVA_HOME to it.",
            java=version,
        )


def java_wanted() -> str:
    """The Java versions that the shim and the installed Spark run on, in words."""
    newest = line_of(pyspark.__version__).newest_java
    return f"Java {OLDEST_JAVA} (up to {newest} works)"


def java_program(environment: Mapping[str, str]) -> Path:
    """The ``java`` that Spark's launcher uses: JAVA_HOME's, or else the first on the PATH."""
    home = environment.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        if not os.access(program, os.X_OK):
            raise SetupError(
                f"JAVA_HOME is {home}, but there is no program {program}. Point JAVA_HOME to an "
                f"installation of {java_wanted()}, or unset it to use the java on the PATH."
            )
        return program
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is None:
        raise SetupError(
            f"There is no Java: JAVA_HOME is not set and the PATH has no java. Install "
            f"{java_wanted()}."
        )
    return Path(found)


def java_version(program: Path) -> int | None:
    """The feature version of a Java (8, 11, 17, ...); None if it cannot be found.

    It is read from the installation's ``release`` file; without that file the program is asked.
    """
    release = program.resolve().parent.parent / "release"
    if release.is_file():
        text = release.read_text(encoding="utf-8", errors="replace")
        found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
        if found is not None:
            return _feature(f'version "{found[1]}"')
    try:
        asked = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise SetupError(f"{program} cannot be run ({e}). Install {java_wanted()}.") from e
    return _feature(asked.stderr + asked.stdout)


def _feature(text: str) -> int | None:
    found = _VERSION.search(text)
    if found is None:
        return None
    first, second = int(found[1]), found[2]
    return int(second) if first == 1 and second else first


def check_running(spark: Any) -> None:
    """``SetupError`` if a session is of the wrong kind, or its Spark, Java or jar do not fit."""
    if not isinstance(spark, SparkSession):
        raise SetupError(
            "pyhudi.attach needs a SparkSession with its own JVM, not a "
            f"{type(spark).__module__}.{type(spark).__qualname__}. A remote session of Spark "
            "Connect needs no attach: the server starts pyhudi by itself, if it has the jar."
        )
    wanted = jar_for(spark.version)
    check_version(spark.version)
    jvm: Any = spark.sparkContext._jvm
    java = _feature(f'version "{jvm.java.lang.System.getProperty("java.specification.version")}"')
    if java is not None and java < OLDEST_JAVA:
        raise SetupError(
            f"The driver's JVM is Java {java}, and pyhudi needs {java_wanted()}. Point JAVA_HOME "
            "to it and start the application again.",
            java=java,
        )
    _check_jar(jvm, wanted)


def check_version(running: str) -> None:
    """``SetupError`` if the JVM runs another Spark line than this Python has."""
    if spark_line(running) != spark_line(pyspark.__version__):
        raise SetupError(
            f"The driver's JVM runs Spark {running}, but Python has pyspark "
            f"{pyspark.__version__}. SPARK_HOME points to another Spark: unset it, or install "
            f"pyspark {running}."
        )


def _check_jar(jvm: Any, wanted: Path) -> None:
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    place = loader.getResource(BRIDGE_CLASS)
    if place is None:
        raise missing_jar(wanted)
    found = _JAR_NAME.search(place.toString())
    if found is not None and f"pyhudi-spark-{found[1]}_" not in wanted.name:
        raise SetupError(
            f"The pyhudi jar on the class path is for Spark {found[1]}: {place.toString()}. This "
            f"Spark needs {wanted}. Put that jar on the class path instead."
        )


def bring_jar(jvm: Any, jar: Path) -> None:
    """Put ``jar`` on the class path of a JVM that runs, as spark-submit does for ``--jars``.

    Spark does this when it starts a JVM, but not for the builder's jars in one that runs already:
    under spark-submit, and after another application of this program.
    """
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(BRIDGE_CLASS) is None:
        with contextlib.suppress(Py4JError):  # a loader that takes no more: check_running tells
            loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())


def missing_jar(wanted: Path) -> SetupError:
    """The error for a driver without the shim; it says what to do."""
    return SetupError(
        "The pyhudi jar is not on the class path of this Spark driver. Stop the session and build "
        "it with pyhudi.configure(SparkSession.builder).getOrCreate(), or start the application "
        f"with spark-submit --jars {wanted}; a running driver takes no more jars."
    )
