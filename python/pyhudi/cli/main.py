"""The ``pyhudi`` command: what an operator asks without a Spark session.

Answers go to stdout, and errors to stderr, each on one line. The exit status is 0, 1 for a
``HudiError``, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence

from pyhudi import __version__
from pyhudi.cli.table_text import history_text, pending_text
from pyhudi.errors import ConfigError, HudiError, SetupError
from pyhudi.services.failed_writes import clean_failed_writes
from pyhudi.spark.jars import jar_for
from pyhudi.timeline.history import history

STORAGE, OPTIONS = "fs.s3a.", "hoodie."
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in ``arguments`` (by default those of the process); the exit status."""
    given = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], str] = given.command
    try:
        print(command(given))
    except HudiError as e:
        print(e, file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has closed the output. Without this Python would complain when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("pyhudi", description="Apache Hudi tables on Spark.")
    parser.add_argument("--version", action="version", version=f"pyhudi {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    jars = commands.add_parser("jars", help="print the path of the jar for spark-submit --jars")
    jars.add_argument("--spark", metavar="VERSION", help="for this Spark, not the installed one")
    jars.set_defaults(command=_jars)

    conf = commands.add_parser("conf", help="print the settings that a Spark application needs")
    conf.add_argument(
        "--arguments", action="store_true", help="as arguments: spark-submit $(pyhudi conf ...)"
    )
    conf.set_defaults(command=_conf)

    log = commands.add_parser("history", help="print what has happened to a table")
    log.add_argument("path", metavar="PATH", help="the table's folder, local or s3a://")
    log.add_argument("--archived", action="store_true", help="include archived instants")
    log.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="an fs.s3a.* setting"
    )
    log.set_defaults(command=_history)

    clean = commands.add_parser("clean", help="roll back what failed writers left in a table")
    clean.add_argument(
        "--failed-writes",
        action="store_true",
        required=True,
        help="roll back writes whose heartbeat is stale; living writers are only listed",
    )
    clean.add_argument("path", metavar="PATH", help="the table's folder, local or s3a://")
    clean.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an fs.s3a.* setting, or a hoodie.* option with the same value as in the writers",
    )
    clean.set_defaults(command=_clean)
    return parser


def _jars(given: argparse.Namespace) -> str:
    return str(jar_for(given.spark or _spark_version()))


def _conf(given: argparse.Namespace) -> str:
    _spark_version()
    from pyhudi.spark.session import spark_conf

    settings = spark_conf()
    if given.arguments:
        return " ".join(f"--conf {key}={value}" for key, value in settings.items())
    return "\n".join(f"{key} {value}" for key, value in settings.items())


def _history(given: argparse.Namespace) -> str:
    path, options = _path(given.path), _settings(given.conf, STORAGE)
    entries = history(path, archived=given.archived, hadoop_options=options)
    if not entries:
        return f"Nothing has been written to the table at {path} yet."
    return history_text(entries)


def _clean(given: argparse.Namespace) -> str:
    path, settings = _path(given.path), _settings(given.conf, STORAGE, OPTIONS)
    found = clean_failed_writes(
        path,
        options={k: v for k, v in settings.items() if k.startswith(OPTIONS)},
        hadoop_options={k: v for k, v in settings.items() if k.startswith(STORAGE)},
    )
    if not found:
        return f"Nothing is pending in the table at {path}."
    return pending_text(found)


def _path(text: str) -> str:
    return text if SCHEME.match(text) else os.path.abspath(text)


def _settings(texts: Sequence[str], *families: str) -> dict[str, str]:
    """The settings of ``--conf``; ``ConfigError`` for a key outside ``families``."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith(families):
            like = " or ".join(f"--conf {family}KEY=VALUE" for family in families)
            raise ConfigError(f"'{text}' is not valid here. Use {like}.", key="--conf")
        found[key] = value
    return found


def _spark_version() -> str:
    try:
        import pyspark
    except ModuleNotFoundError as e:
        raise SetupError(
            f"PySpark is not installed in {sys.prefix}. Install pyspark 3.5 or 4.0 there, or give "
            "a version: pyhudi jars --spark 3.5."
        ) from e
    return str(pyspark.__version__)


if __name__ == "__main__":
    sys.exit(main())
