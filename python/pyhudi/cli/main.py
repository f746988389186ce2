"""The ``pyhudi`` command: what an operator asks without a Spark session.

Answers go to stdout, and errors to stderr, each on one line. The exit status is 0, 1 for a
``HudiError`` and for a table that ``check`` finds broken, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from pyhudi import __version__
from pyhudi.cli.arguments import Settings, add_budget, place_of
from pyhudi.cli.repairs import add_repairs
from pyhudi.cli.service_rounds import add_rounds
from pyhudi.cli.table_text import pending_text
from pyhudi.cli.tables import (
    Answer,
    Command,
    add_commands,
    add_table_arguments,
    json_text,
    listed,
)
from pyhudi.clock import SystemClock
from pyhudi.errors import ConfigError, HudiError, SetupError
from pyhudi.listing import Listing
from pyhudi.services.archiver import archive
from pyhudi.services.clean import clean
from pyhudi.services.compaction import CompactionStep
from pyhudi.services.failed_writes import Outcome, PendingWrite, clean_failed_writes
from pyhudi.services.restore import restore
from pyhudi.services.savepoints import Savepoint, delete_savepoint, savepoint
from pyhudi.spark.cluster_tasks import cluster
from pyhudi.spark.compact_tasks import compact
from pyhudi.spark.jars import jar_for

SETTINGS = "an fs.s3a.* setting, or a hoodie.* option with the same value as in the writers"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in ``arguments`` (by default those of the process); the exit status."""
    given = _parser().parse_args(arguments)
    command: Command = given.command
    status = 0
    try:
        text, status = command(given)
        print(text)
    except HudiError as e:
        print(e, file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has closed the output. Without this Python would complain when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


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
    conf.add_argument("--spark", metavar="VERSION", help="for this Spark, not the installed one")
    conf.add_argument("--json", action="store_true", help="print JSON")
    conf.set_defaults(command=_conf)

    add_commands(commands)

    clean = commands.add_parser("clean", help="delete old file versions, or failed writes' files")
    clean.add_argument(
        "--dry-run",
        action="store_true",
        help="print what would be deleted, and change nothing",
    )
    add_budget(clean, "files", "bytes")
    clean.add_argument(
        "--failed-writes",
        action="store_true",
        help="instead roll back writes whose heartbeat is stale; living writers are only listed",
    )
    clean.add_argument(
        "--force",
        action="store_true",
        help="with --failed-writes: after a countdown also those whose writers may live",
    )
    clean.add_argument(
        "--countdown", metavar="SECONDS", type=int, default=10, help="before --force; 10 if not set"
    )
    add_table_arguments(clean, SETTINGS)
    clean.set_defaults(command=_clean)

    _add_cluster(commands)
    _add_compact(commands)
    _add_archive(commands)
    _add_savepoints(commands)
    add_rounds(commands, SETTINGS)
    add_repairs(commands, SETTINGS)
    return parser


def _add_cluster(commands: Any) -> None:
    together = commands.add_parser("cluster", help="put rows into fewer, or better sorted, files")
    together.add_argument(
        "--dry-run",
        action="store_true",
        help="print which files would be rewritten together, and change nothing",
    )
    add_budget(together, "files", "bytes", "cpu")
    add_table_arguments(together, SETTINGS)
    together.set_defaults(command=_cluster)


def _add_compact(commands: Any) -> None:
    merged = commands.add_parser("compact", help="merge log files into new base files")
    merged.add_argument(
        "--dry-run",
        action="store_true",
        help="print which file groups would be compacted, and change nothing",
    )
    steps = [step.value for step in CompactionStep]
    merged.add_argument(
        "--op", choices=steps, default=steps[2], help="plan, run plans, both, or delete plans"
    )
    merged.add_argument(
        "--instant",
        dest="instants",
        metavar="INSTANT",
        action="append",
        default=[],
        help="of pending plans only this one, also if a program without a heartbeat began it",
    )
    add_budget(merged, "files", "bytes")
    add_table_arguments(merged, SETTINGS)
    merged.set_defaults(command=_compact)


def _add_archive(commands: Any) -> None:
    old = commands.add_parser("archive", help="move old instants into the archived timeline")
    old.add_argument(
        "--dry-run",
        action="store_true",
        help="print what would be archived, and change nothing",
    )
    old.add_argument(
        "--max-instants", metavar="N", type=int, help="move at most N; the next archive goes on"
    )
    add_table_arguments(old, SETTINGS)
    old.set_defaults(command=_archive)


def _add_savepoints(commands: Any) -> None:
    keep = commands.add_parser("savepoint", help="keep a commit readable, and its files")
    add_table_arguments(keep, SETTINGS)
    keep.add_argument("instant", nargs="?", metavar="INSTANT", help="a commit; the last by default")
    keep.add_argument("--comment", metavar="TEXT", default="", help="what it is for")
    keep.set_defaults(command=_savepoint)

    drop = commands.add_parser("delete-savepoint", help="let a clean delete a savepoint's files")
    add_table_arguments(drop, SETTINGS)
    drop.add_argument("instant", metavar="INSTANT", help="the commit that it keeps")
    drop.set_defaults(command=_delete_savepoint)

    back = commands.add_parser("restore", help="bring the table back to an earlier commit")
    add_table_arguments(back, SETTINGS)
    back.add_argument("instant", metavar="INSTANT", help="the last commit that stays")
    back.add_argument(
        "--dry-run", action="store_true", help="print what would be undone, and change nothing"
    )
    back.add_argument(
        "--fence",
        action="store_true",
        help="roll running writes back first, and let queries fail whose files go; without it they "
        "are named and nothing happens",
    )
    back.set_defaults(command=_restore)


def _jars(given: argparse.Namespace) -> Answer:
    return str(jar_for(given.spark or _spark_version())), 0


def _conf(given: argparse.Namespace) -> Answer:
    _spark_version()
    from pyhudi.spark.session import spark_conf

    settings = spark_conf(given.spark)
    if given.json:
        return json_text(settings), 0
    if given.arguments:
        return " ".join(f"--conf {key}={value}" for key, value in settings.items()), 0
    return "\n".join(f"{key} {value}" for key, value in settings.items()), 0


def _clean(given: argparse.Namespace) -> Answer:
    path, options, hadoop_options = place_of(given)
    if not given.failed_writes:
        old = clean(
            path,
            dry_run=given.dry_run,
            max_files=given.max_files,
            max_bytes=given.max_bytes,
            options=options,
            hadoop_options=hadoop_options,
        )
        return listed(given, old, f"The table at {path} has no old versions of files.")
    if given.max_files is not None or given.max_bytes is not None:
        raise ConfigError(
            "--max-files and --max-bytes do not bound --failed-writes. Leave them out.",
            key="--failed-writes",
        )
    return _rolled_back(given, path, options, hadoop_options)


def _cluster(given: argparse.Namespace) -> Answer:
    path, options, hadoop_options = place_of(given)
    found = cluster(
        path,
        dry_run=given.dry_run,
        max_files=given.max_files,
        max_bytes=given.max_bytes,
        max_cpu_minutes=given.max_cpu_minutes,
        options=options,
        hadoop_options=hadoop_options,
    )
    return listed(given, found, f"The table at {path} has no files.")


def _compact(given: argparse.Namespace) -> Answer:
    path, options, hadoop_options = place_of(given)
    found = compact(
        path,
        op=given.op,
        instants=given.instants,
        dry_run=given.dry_run,
        max_files=given.max_files,
        max_bytes=given.max_bytes,
        options=options,
        hadoop_options=hadoop_options,
    )
    return listed(given, found, f"The table at {path} has no log files to compact.")


def _archive(given: argparse.Namespace) -> Answer:
    path, options, hadoop_options = place_of(given)
    found = archive(
        path,
        dry_run=given.dry_run,
        max_instants=given.max_instants,
        options=options,
        hadoop_options=hadoop_options,
    )
    return listed(given, found, f"The table at {path} has no completed instants.")


def _rolled_back(
    given: argparse.Namespace, path: str, options: Settings, hadoop_options: Settings
) -> Answer:
    roll_back = partial(clean_failed_writes, path, options=options, hadoop_options=hadoop_options)
    found = roll_back(dry_run=given.dry_run)
    alive = {each.instant for each in found if each.outcome is Outcome.ALIVE}
    if given.force and alive:
        if not given.dry_run and not _counted_down(sorted(alive), given.countdown):
            return "Stopped: no write was rolled back by force.", 1
        forced = {each.instant: each for each in roll_back(dry_run=given.dry_run, force=alive)}
        found = tuple(forced.get(each.instant, each) for each in found)
    if given.json:
        return json_text(Listing(PendingWrite, found).records()), 0
    return (pending_text(found) if found else f"Nothing is pending in the table at {path}."), 0


def _savepoint(given: argparse.Namespace) -> Answer:
    path, options, hadoop_options = place_of(given)
    made = savepoint(
        path, given.instant, comment=given.comment, options=options, hadoop_options=hadoop_options
    )
    return listed(given, Listing(Savepoint, [made]), "")


def _delete_savepoint(given: argparse.Namespace) -> Answer:
    path, options, hadoop_options = place_of(given)
    left = delete_savepoint(path, given.instant, options=options, hadoop_options=hadoop_options)
    return listed(given, left, f"The table at {path} has no savepoint any more.")


def _restore(given: argparse.Namespace) -> Answer:
    path, options, hadoop_options = place_of(given)
    undone = restore(
        path,
        given.instant,
        dry_run=given.dry_run,
        fence=given.fence,
        options=options,
        hadoop_options=hadoop_options,
    )
    return listed(given, undone, f"The table at {path} has no commit after {given.instant}.")


def _counted_down(instants: Sequence[str], seconds: int) -> bool:
    """Whether nobody interrupted the countdown before ``instants`` are rolled back by force."""
    print(
        f"The writers of {', '.join(instants)} may live. Their writes are rolled back in "
        f"{seconds} s, and they fail when they would commit. Ctrl-C stops this.",
        file=sys.stderr,
    )
    clock = SystemClock()
    try:
        for rest in range(seconds, 0, -1):
            print(f"{rest} ...", file=sys.stderr)
            clock.sleep(1)
    except KeyboardInterrupt:
        return False
    return True


def _spark_version() -> str:
    try:
        import pyspark
    except ModuleNotFoundError as e:
        raise SetupError(
            f"PySpark is not installed in {sys.prefix}. Install pyspark 3.5 or newer there, or "
            "give a version: pyhudi jars --spark 3.5."
        ) from e
    return str(pyspark.__version__)


if __name__ == "__main__":
    sys.exit(main())
