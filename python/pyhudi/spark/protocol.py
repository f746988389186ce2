"""The shim's questions and their answers: the whole contract of the bridge.

A request is JSON with two parts: ``place``, the table of the question, and ``ask``, the question's
own class below. An answer is ``{"ok": value}`` with the question's answer, or ``{"error": ...}``
with a `Failure`. Both sides compare ``VERSION`` when they meet; it changes with these classes.
Some are classes of the layers below. `spark/shim_code.py` writes the shim's part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from pyhudi.application.batches import MicroBatch
from pyhudi.catalogs.hudi_entry import EntryName
from pyhudi.listing import ListingName
from pyhudi.reads.conditions import Filter
from pyhudi.reads.footers import Wanted
from pyhudi.reads.incremental import RowsOfCommits
from pyhudi.reads.scan import PartitionTexts
from pyhudi.reads.scan_plan import ScanPlan
from pyhudi.services.called import (
    CalledService,
    CleanFailedWrites,
    DropSavepoint,
    MakeSavepoint,
    PutBack,
    ServiceArguments,
)
from pyhudi.spark.batch_questions import BatchAnswer, CommitAnswer, WriteBatch
from pyhudi.spark.stream_protocol import STREAM_QUESTIONS
from pyhudi.spark.wire import Tree, shape
from pyhudi.tables.column_changes import ColumnChange
from pyhudi.writes.intent import Overwrite, SaveMode

Options = Mapping[str, str]
Texts = tuple[str, ...]
Conditions = tuple[Filter, ...]


class QuestionEffect(Enum):
    """What may have happened if the answer to a question is lost."""

    LOOKS = "looks"
    CHANGES = "changes"


# ---- the common part


@dataclass(frozen=True, slots=True)
class Place:
    """The table that a question is about.

    ``path`` is Hadoop's text form, not percent-encoded. ``options`` are those of the statement,
    ``properties`` the TBLPROPERTIES of the catalog, ``session`` the session's own ``hoodie.*``
    settings. ``entry`` names its entry in a Hive Metastore that other sessions also use, ``batch``
    the micro-batch of a stream in which the question is asked.
    """

    path: str
    options: Options
    properties: Options
    session: Options
    entry: EntryName | None
    batch: MicroBatch | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A question before ``ask`` is decoded by its own class."""

    place: Place
    ask: Tree


@dataclass(frozen=True, slots=True)
class Scan:
    """A described state that a statement has read: its path, the options, and its pin."""

    path: str
    options: Options
    pin: str
    instant: str | None


@dataclass(frozen=True, slots=True)
class Reads:
    """The scans of the written table in a statement's own plan; none if it reads only others.

    ``evaluated`` is how often the plan was evaluated before, None if it cannot be evaluated again.
    """

    scans: tuple[Scan, ...]
    evaluated: int | None


@dataclass(frozen=True, slots=True)
class Nothing:
    """A question that needs only the table."""


# ---- questions that look


@dataclass(frozen=True, slots=True)
class SameTables:
    """For each of the paths ``others``: is it the place that ``path`` names?"""

    others: Texts


@dataclass(frozen=True, slots=True)
class Describe:
    """The table at its newest state, at an instant or date, or at microseconds of the epoch."""

    as_of: str | None
    as_of_micros: int | None


@dataclass(frozen=True, slots=True)
class Described:
    """A state of a table: ``pin`` names it in later questions; None ``instant`` without commits.

    ``partitioning`` are the columns whose values name the partitions, ``partition_columns`` all
    columns that form partition paths. ``runtime_filters`` are columns by which a join may leave
    files out; ``travels`` says that the reader named the point in time. ``rows`` are those of an
    incremental read: the files hold others besides; ``logged``: change logs tell them for less.
    ``changes``: it is change data. ``follows``: only a stream can read it, since it has no begin.
    """

    schema: Tree
    partitioning: tuple[str, ...]
    partition_columns: tuple[str, ...]
    properties: Options
    instant: str | None
    meta_fields: bool
    runtime_filters: tuple[str, ...]
    travels: bool
    rows: RowsOfCommits | None
    logged: bool
    changes: bool
    follows: bool
    pin: str


@dataclass(frozen=True, slots=True)
class ReadChanges:
    """Change data, a range's rows by change logs, or rows of log files, in columns of ``schema``.

    ``homes`` number the ``log_homes``. ``decodes``: a file of ``block_rows.py`` may be the answer.
    """

    pin: str
    instant: str | None
    schema: Tree
    filters: Conditions
    partition_filters: Conditions
    homes: tuple[tuple[str, int], ...]
    decodes: bool


@dataclass(frozen=True, slots=True)
class AtPin:
    """A question that needs only the pin of a described state."""

    pin: str
    instant: str | None


@dataclass(frozen=True, slots=True)
class Decide:
    """For each filter: is it true for every row of the files that all filters leave?"""

    pin: str
    instant: str | None
    filters: Conditions


@dataclass(frozen=True, slots=True)
class PlanScan:
    """The files to read; Spark evaluates ``filters`` on the rows, but not ``partition_filters``."""

    pin: str
    instant: str | None
    filters: Conditions
    partition_filters: Conditions
    runtime_filters: Conditions
    limit: int | None
    homes: bool


@dataclass(frozen=True, slots=True)
class Count:
    """The number of rows that pass the filters; None if only a scan can count them."""

    pin: str
    instant: str | None
    filters: Conditions
    partition_filters: Conditions


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Each aggregate of the rows that pass the filters; None if only a scan can compute it."""

    pin: str
    instant: str | None
    filters: Conditions
    partition_filters: Conditions
    wanted: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True)
class Inspect:
    """A list of facts of the table."""

    listing: ListingName


@dataclass(frozen=True, slots=True)
class Why:
    """What touched a record key; ``carried`` also lists slices that only copied its row."""

    key: str
    partition: str | None
    carried: bool


@dataclass(frozen=True, slots=True)
class Told:
    """A list as rows: its columns as DDL, and plain values."""

    columns: str
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on partition columns, all of which hold."""

    filters: Conditions


@dataclass(frozen=True, slots=True)
class Spooled:
    """A folder of spooled rows that is no longer needed."""

    spool: str


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job of a statement that Spark evaluates has failed; ``text`` is the JVM's stack trace."""

    description: str
    text: str


# ---- questions that change something


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Make the table, or ``adopt`` an existing one; ``table`` is its name, with database."""

    table: str
    schema: Tree
    partitioning: Texts
    adopt: bool


@dataclass(frozen=True, slots=True)
class Made:
    """The table as it is now; ``made`` is the id of a new table, None for an existing one."""

    schema: Tree
    partitioning: tuple[str, ...]
    made: str | None


@dataclass(frozen=True, slots=True)
class DiscardTable:
    """Remove the table that was ``made`` for a failed statement."""

    made: str


@dataclass(frozen=True, slots=True)
class Rename:
    """Another name in the same database."""

    to: str


@dataclass(frozen=True, slots=True)
class RegisterTable:
    """The entry of an existing or new table; ``managed``: DROP TABLE deletes its files."""

    schema: Tree
    partitioning: Texts
    managed: bool


@dataclass(frozen=True, slots=True)
class AlterEntry:
    """TBLPROPERTIES that are set and dropped, and comments of columns, None for none."""

    given: Options
    dropped: Texts
    comments: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Serve:
    """A service with further options; if ``dry_run`` it only tells what it would do."""

    service: CalledService
    dry_run: bool
    settings: Options
    arguments: ServiceArguments


@dataclass(frozen=True, slots=True)
class Restore:
    """The last commit that stays, whether to only list, and whether running writes go first."""

    instant: str
    dry_run: bool
    fence: bool


@dataclass(frozen=True, slots=True)
class SyncPartitions:
    """Whether partitions that the entry lacks are added, and those without rows dropped."""

    add: bool
    drop: bool


@dataclass(frozen=True, slots=True)
class SetProperties:
    """TBLPROPERTIES that a statement is about to set and to drop."""

    given: Options
    dropped: Texts


# ---- questions that commit


class Command(Enum):
    """The statement that changes rows."""

    UPDATE = "update"
    DELETE = "delete"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class Save:
    """``df.write.save`` of a DataFrame; ``partitioning`` is that of ``partitionBy``."""

    mode: SaveMode
    partitioning: Texts
    reads: Reads


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT or ``writeTo`` of a DataFrame; ``filters`` say what an overwrite replaces."""

    overwrite: Overwrite
    filters: Conditions
    reads: Reads


@dataclass(frozen=True, slots=True)
class InsertNew:
    """A MERGE that only inserts; Spark passes it as an INSERT of a DataFrame."""

    reads: Reads


@dataclass(frozen=True, slots=True)
class InsertSpooled:
    """A dynamic overwrite of partitions by spooled rows."""

    spool: str
    files: Texts
    schema: Tree
    overwrite: Overwrite
    reads: Reads


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """UPDATE, DELETE or MERGE by spooled changes; ``homes`` are numbers and paths of files."""

    spool: str
    files: Texts
    schema: Tree
    command: Command
    homes: tuple[tuple[int, str], ...]
    reads: Reads


@dataclass(frozen=True, slots=True)
class AlterColumns:
    """Changes of columns, in order."""

    changes: tuple[ColumnChange, ...]


# ---- errors, and the table of all questions


@dataclass(frozen=True, slots=True)
class Failure:
    """An error by its class and message; after ``again_in_ms`` the statement may run once more."""

    kind: str
    message: str
    again_in_ms: int | None


@dataclass(frozen=True, slots=True)
class Question:
    """A question: its own part, its answer's type, its effect; ``frame``: a DataFrame comes too."""

    ask: Any
    answer: Any
    effect: QuestionEffect
    frame: bool = False


LOOKS, CHANGES = QuestionEffect.LOOKS, QuestionEffect.CHANGES
Flags = tuple[bool, ...]
QUESTIONS: Final[Mapping[str, Question]] = {
    "exists": Question(Nothing, bool, LOOKS),
    "holds_locks_alone": Question(Nothing, bool, LOOKS),
    "check_properties": Question(SetProperties, type(None), LOOKS),
    "same_tables": Question(SameTables, Flags, LOOKS),
    "describe": Question(Describe, Described, LOOKS),
    "decide": Question(Decide, Flags, LOOKS),
    "plan_scan": Question(PlanScan, ScanPlan, LOOKS),
    "count": Question(Count, int | None, LOOKS),
    "read_changes": Question(ReadChanges, str | None, LOOKS, frame=True),
    "aggregate": Question(Aggregate, tuple[int | None, ...] | None, LOOKS),
    **{name: Question(ask, answer, LOOKS, frame) for name, ask, answer, frame in STREAM_QUESTIONS},
    "partition_values": Question(AtPin, tuple[PartitionTexts, ...], LOOKS),
    "inspect": Question(Inspect, Told, LOOKS),
    "why": Question(Why, Told, LOOKS),
    "bins": Question(Nothing, Told, LOOKS),
    "can_delete_where": Question(Filters, bool, LOOKS),
    "check_row_changes": Question(AtPin, type(None), LOOKS),
    "spool_begin": Question(Nothing, str, LOOKS),
    "spool_abort": Question(Spooled, type(None), LOOKS),
    "tell_failure": Question(FailedJob, type(None), LOOKS),
    "create_table": Question(CreateTable, Made, CHANGES),
    "discard_table": Question(DiscardTable, bool, CHANGES),
    "drop_table": Question(Nothing, bool, CHANGES),
    "rename_table": Question(Rename, str, CHANGES),
    "serve": Question(Serve, Told, CHANGES),
    "clean_failed_writes": Question(CleanFailedWrites, Told, CHANGES),
    "savepoint": Question(MakeSavepoint, Told, CHANGES),
    "delete_savepoint": Question(DropSavepoint, Told, CHANGES),
    "restore": Question(Restore, Told, CHANGES),
    "put_back": Question(PutBack, Told, CHANGES),
    "register_table": Question(RegisterTable, type(None), CHANGES),
    "forget_entry": Question(Nothing, type(None), CHANGES),
    "alter_entry": Question(AlterEntry, type(None), CHANGES),
    "rename_entry": Question(Rename, type(None), CHANGES),
    "sync_partitions": Question(SyncPartitions, Told, CHANGES),
    "write": Question(Save, CommitAnswer, CHANGES, frame=True),
    "write_batch": Question(WriteBatch, BatchAnswer, CHANGES, frame=True),
    "insert": Question(Insert, CommitAnswer, CHANGES, frame=True),
    "insert_new": Question(InsertNew, CommitAnswer, CHANGES, frame=True),
    "insert_spooled": Question(InsertSpooled, CommitAnswer, CHANGES),
    "change_rows": Question(ChangeRows, CommitAnswer, CHANGES),
    "alter_columns": Question(AlterColumns, CommitAnswer, CHANGES),
    "truncate_table": Question(Nothing, CommitAnswer, CHANGES),
    "delete_where": Question(Filters, CommitAnswer, CHANGES),
}


def _version() -> str:
    told = {
        name: [shape(each.ask), shape(each.answer), each.effect.value, each.frame]
        for name, each in QUESTIONS.items()
    }
    text = json.dumps([shape(Asked), shape(Failure), told], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


VERSION: Final = _version()
