"""The main job on local disk, step by step: ``python -m pyhudi.cli.quickstart [FOLDER]``.

It writes only to a new or empty folder, and says at the end how to look at the table.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from pyhudi.cli.table_text import history_text
from pyhudi.cli.taxi_trips import corrections, late_news, trips
from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import HudiError, TableExists
from pyhudi.spark.session import configure
from pyhudi.text_table import size_text, table_text, time_text
from pyhudi.timeline.history import HistoryEntry, history

FOLDER = "quickstart-table"
TABLE = "taxi_trips"
ROWS = 300_000
NEW_ROWS = 3_000
CORRECTED_ONE_IN = 60
LATE_ROWS = 100
#: only errors: what Spark logs while it starts does not help a beginner
QUIET_LOG = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Tour:
    """What each step needs: a session, the table's path, and a way to print."""

    spark: SparkSession
    path: str
    say: Say
    clock: Clock
    rows: int = ROWS

    def step(self, title: str, work: Callable[[], str]) -> None:
        """Announce a step, do it, and print its result and its duration."""
        self.say(f"\n{title} ...")
        start = self.clock.monotonic()
        outcome = work()
        self.say(f"  {self.clock.monotonic() - start:.1f} s: {outcome}")

    def write(self, rows: DataFrame, **options: str) -> HistoryEntry:
        """Append to the table; returns the commit from the table's history."""
        writer = rows.write.format("pyhudi").mode("append").option("hoodie.table.name", TABLE)
        writer.options(**options).save(self.path)
        return history(self.path)[-1]

    def read(self, as_of: str | None = None) -> DataFrame:
        """The table as it is now, or was at an instant."""
        reader = self.spark.read.format("pyhudi")
        return (reader if as_of is None else reader.option("as.of.instant", as_of)).load(self.path)


def run(tour: Tour) -> None:
    """The whole tour; ``HudiError`` if a step fails, ``AssertionError`` if rows are wrong."""
    tour.step(f"Writing {tour.rows:,} taxi trips into a new table", lambda: create(tour))
    tour.step("Upserting corrections and new trips", lambda: upsert(tour))
    tour.step("Reading the table as it is now", lambda: snapshot(tour))
    tour.step("Travelling back to the first commit", lambda: travel(tour))
    tour.step("Reading the table's history", lambda: past(tour))


def create(tour: Tour) -> str:
    """A new table, one folder for each day."""
    done = tour.write(
        trips(tour.spark, 0, tour.rows),
        **{
            "hoodie.datasource.write.operation": "bulk_insert",
            "hoodie.datasource.write.recordkey.field": "trip_id",
            "hoodie.table.ordering.fields": "updated_at",
            "hoodie.datasource.write.partitionpath.field": "day",
            "hoodie.datasource.write.hive_style_partitioning": "true",
        },
    )
    assert done.rows_inserted == tour.rows
    return f"{done.files} files in a folder for each day, {size_text(done.bytes_written)}."


def upsert(tour: Tour) -> str:
    """Changed rows, new rows, and rows older than the table's, in one write."""
    first = trips(tour.spark, 0, tour.rows)
    fixed = corrections(first, CORRECTED_ONE_IN)
    late = late_news(first.join(fixed, "trip_id", "left_anti"), LATE_ROWS)
    new = trips(tour.spark, tour.rows, NEW_ROWS, last_day_only=True)
    done = tour.write(fixed.unionByName(late).unionByName(new))
    assert done.rows_inserted == NEW_ROWS
    return (
        f"{done.rows_inserted:,} trips inserted, {done.rows_updated:,} updated. {LATE_ROWS} rows "
        "came\n  too late (the table had newer ones, by updated_at) and changed nothing."
    )


def snapshot(tour: Tour) -> str:
    """The trips and fares of each day."""
    days = (
        tour.read()
        .groupBy("day")
        .agg(
            F.count("*").alias("trips"),
            F.round(F.avg("km"), 1).alias("km"),
            F.sum("fare").alias("fares"),
        )
        .orderBy("day")
        .collect()
    )
    total = sum(row.trips for row in days)
    assert total == tour.rows + NEW_ROWS
    tour.say(_indented(table_text(("day", "trips", "km", "fares"), [_day(row) for row in days])))
    return f"{total:,} trips."


def _day(row: Row) -> tuple[str, int, str, str]:
    return row.day, row.trips, f"{row.km:>4}", f"{row.fares:>12,}"


def travel(tour: Tour) -> str:
    """Some corrected trips, before and after."""
    first = next(entry for entry in history(tour.path) if entry.is_commit)
    before = tour.read(as_of=first.instant)
    assert before.count() == tour.rows
    now = tour.read().select("trip_id", F.col("fare").alias("now"))
    changed = (
        before.join(now, "trip_id")
        .where(F.col("fare") != F.col("now"))
        .select("trip_id", "from_zone", "to_zone", F.col("fare").cast("string"), "now")
        .orderBy("trip_id")
        .limit(3)
        .collect()
    )
    assert changed
    head = ("trip", "from", "to", "fare then", "fare now")
    rows = [(*row[:4], str(row.now)) for row in changed]
    tour.say(_indented(table_text(head, rows)))
    return f"as of instant {first.instant} the table had {tour.rows:,} trips."


def past(tour: Tour) -> str:
    """The timeline as a table."""
    entries = history(tour.path)
    tour.say(_indented(history_text(entries)))
    return f"{len(entries)} commits, the last on {time_text(entries[-1].completed_at)} UTC."


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def next_steps(path: str, first: str) -> str:
    """How to go on from here, with commands to copy."""
    return f"""
The table stays in {path}
(delete that folder when you no longer need it). To look at it next:

  its history, without Spark:
    {_program("pyhudi")} history {path}

  its rows, from Python ({sys.executable}):
    import pyhudi
    from pyspark.sql import SparkSession
    spark = pyhudi.configure(SparkSession.builder).getOrCreate()
    spark.read.format("pyhudi").load("{path}").show()

  and in SQL, now and then:
    spark.sql("create table trips using pyhudi location '{path}'")
    spark.sql("select day, count(*) from trips group by day order by day").show()
    spark.sql("select count(*) from trips version as of '{first}'").show()
"""


def _program(name: str) -> str:
    """The path of the command beside this interpreter; if there is none, only its name."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else name


def free_folder(wanted: str | None) -> Path:
    """The folder for the table: ``wanted`` if it is new or empty, else the first free default.

    ``TableExists`` if ``wanted`` is not empty: nothing is ever overwritten.
    """
    if wanted is not None:
        folder = Path(os.path.abspath(wanted))
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise TableExists(
                f"{folder} exists already and is not empty. Name a new folder; the quickstart "
                "overwrites nothing.",
                path=str(folder),
            )
        return folder
    folder, number = Path.cwd() / FOLDER, 1
    while folder.exists():
        number += 1
        folder = folder.with_name(f"{FOLDER}-{number}")
    return folder


def start_spark(log_settings: Path) -> SparkSession:
    """A new local session that logs only errors."""
    log_settings.write_text(QUIET_LOG, encoding="utf-8")
    builder = (
        SparkSession.builder.master("local[*]")
        .appName("pyhudi quickstart")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={log_settings}")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    session: SparkSession = configure(builder).getOrCreate()
    return session


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tour in a new folder; the exit status."""
    parser = argparse.ArgumentParser("pyhudi.cli.quickstart", description=__doc__)
    parser.add_argument("folder", nargs="?", help=f"where the table goes (default: ./{FOLDER})")
    clock = SystemClock()
    start = clock.monotonic()
    try:
        folder = free_folder(parser.parse_args(arguments).folder)
        _say(f"pyhudi on Spark {pyspark.__version__}: a Hudi table on local disk, in {folder}")
        _say("\nStarting Spark ...")
        with tempfile.TemporaryDirectory() as scratch:
            spark = start_spark(Path(scratch) / "log4j2.properties")
            _say(f"  {clock.monotonic() - start:.1f} s: it runs only on this machine.")
            run(Tour(spark, str(folder), _say, clock))
            spark.stop()
    except (HudiError, PySparkException) as e:
        print(e, file=sys.stderr)
        return 1
    _say(next_steps(str(folder), history(str(folder))[0].instant))
    _say(f"The whole tour took {clock.monotonic() - start:.0f} s.")
    return 0


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
