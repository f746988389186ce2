"""UPDATE, DELETE and MERGE: the rows that Spark found changed, prepared for one write.

Spark evaluates the statement on one state of the table and spools each change with the row's key
and the number of its file. The write is an upsert of these rows, but without a lookup of the groups
of old rows: they are known. A new row whose key exists would silently become an update, so it is
refused. A row that the statement leaves with a mark of deletes is a delete, as in an upsert:
readers of logs take it for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from pyhudi.application.jobs import Jobs
from pyhudi.config import WriteOptions
from pyhudi.errors import InvalidRecord, WriteFailed
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import TableConfig
from pyhudi.index.kinds import kind_of, rows_move
from pyhudi.rows.spec import DELETE, HOME
from pyhudi.writes.fitted import named
from pyhudi.writes.keys.expressions import PARTITION_PATH, RECORD_KEY, partition_path, record_key
from pyhudi.writes.prepare import STAYS, Prepared, Survey, marked, timestamp_format
from pyhudi.writes.stage import job

#: the kind of a change, before the row's identity and its new values
CHANGE = "_pyhudi_change"
DELETED, UPDATED, INSERTED = "d", "u", "i"
#: number of the row's file in the scan, as the shim spools it
FILE_NUMBER = "_file-number"
IDENTITY = (RECORD_KEY, PARTITION_PATH, HOME)
#: between texts in an array that Spark folds into a constant; no path has it
BETWEEN = "\0"
NEW_KEY, NEW_PATH = "_pyhudi_new_key", "_pyhudi_new_path"
STEP = "_pyhudi_step"
#: whether the new values of an updated row say that it is deleted
MARKED = "_pyhudi_marked"
#: keys that an error names
SHOWN = 5


def prepare_changes(
    changes: DataFrame,
    config: TableConfig,
    current: SparkSchema,
    options: WriteOptions,
    named_keys: bool,
    key_prefix: str,
) -> Prepared:
    """Changes as rows of an upsert, with ``HOME`` for rows that are in the table.

    An updated row that is marked as deleted is deleted where it is, unless its ordering
    value is smaller than the stored one; a new row so marked is left out.
    A row whose partition changes is deleted in the old and inserted in the new partition; under a
    global index ``hoodie.*.index.update.partition.path`` may leave it where it is, with its old
    partition values, which ``with_homes`` looks up. New rows
    of a table without record key fields get keys that begin with ``key_prefix``. ``InvalidRecord``
    if a key would change, or if two rows would have one key.
    """
    target = StructType.fromJson(current.json())
    rows, survey = _identified(changes, target, config), Survey()
    if set(target.fieldNames()) & set(changes.columns):
        path = partition_path(rows.schema, config, timestamp_format(options))
        everywhere = kind_of(options).everywhere
        rows = rows.withColumn(STAYS, F.lit(False))
        if everywhere and not rows_move(options):
            rows = rows.withColumn(STAYS, _remains() & (F.col(PARTITION_PATH) != path))
            path = F.when(_is(UPDATED), F.col(PARTITION_PATH)).otherwise(path)
        path = F.when(F.col(MARKED), F.col(PARTITION_PATH)).otherwise(path)
        rows = rows.withColumn(NEW_PATH, path)
        if config.record_key_fields:
            key = record_key(rows.schema, config.record_key_fields, named_keys)
            rows = rows.withColumn(NEW_KEY, key)
            with job(rows.sparkSession, f"pyhudi upsert {config.name}: check the changes"):
                survey = _survey(rows, config, named_keys, everywhere)
        else:
            with job(rows.sparkSession, f"pyhudi upsert {config.name}: count the changes"):
                survey = _counted(rows)
            key = F.concat(F.lit(key_prefix), F.monotonically_increasing_id())
            rows = rows.withColumn(NEW_KEY, key)
        rows = _placed(rows, target.fieldNames(), survey)
    else:
        rows, survey = rows.withColumn(DELETE, F.lit(True)), Survey(deletes=True)
    columns = [RECORD_KEY, PARTITION_PATH, DELETE, HOME]
    rows = rows.select(*columns, *map(named, target.fieldNames()))
    return Prepared(rows, current, current.arrow(), current.names, True, named_keys, survey)


def inserted_rows(jobs: Jobs, rows: DataFrame, description: str) -> DataFrame:
    """New rows as changes, evaluated once, since they are checked before they are written.

    ``description`` names the Spark job.
    """
    nobody = [F.lit(None).cast("string").alias(name) for name in IDENTITY]
    changes = rows.select(F.lit(INSERTED).alias(CHANGE), *nobody, *map(named, rows.columns))
    return jobs.checkpointed(changes, description)


def spooled_changes(spooled: DataFrame, homes: Mapping[int, str]) -> DataFrame:
    """Spooled rows with partition path and file id, from ``homes`` by the number of the file.

    ``homes`` are paths relative to the table; a new row has no number.
    """
    given = [homes.get(number, "") for number in range(max(homes, default=-1) + 1)]
    folders = [path.rpartition("/")[0] for path in given]
    # spec/data_files.md D1: a name begins with <file id>_, a log's with a dot before; an id has no
    # "_".
    names = [path.rpartition("/")[2].removeprefix(".") for path in given]
    ids = [name.partition("_")[0] for name in names]
    values = [c for c in spooled.columns if c not in (CHANGE, RECORD_KEY, FILE_NUMBER)]
    return spooled.select(
        CHANGE,
        RECORD_KEY,
        _numbered(folders).alias(PARTITION_PATH),
        _numbered(ids).alias(HOME),
        *map(named, values),
    )


def _numbered(texts: Sequence[str]) -> Column:
    array = F.split(F.lit(BETWEEN.join(texts)), BETWEEN)
    number = named(FILE_NUMBER)
    # Spark 4.0 treats a null number as a number here, since the array has no nulls.
    return F.when(number.isNotNull(), F.element_at(array, number + F.lit(1)))


def _identified(changes: DataFrame, target: StructType, config: TableConfig) -> DataFrame:
    """The changes with all columns of the table and ``MARKED``; marked new rows are left out."""
    given = {f.name: f.dataType for f in changes.schema.fields}

    def value(name: str, kind: DataType) -> Column:
        if name not in given:
            return F.lit(None).cast(kind)
        # Spark casts no list that may have nulls to one of a column that declares it has none.
        same = given[name].simpleString() == kind.simpleString()
        return named(name) if same else named(name).cast(kind)

    values = [value(f.name, f.dataType).alias(f.name) for f in target.fields]
    rows = changes.select(CHANGE, *IDENTITY, *values)
    mark = marked(target, config)
    if mark is None:
        return rows.withColumn(MARKED, F.lit(False))
    return rows.where(~(_is(INSERTED) & mark)).withColumn(MARKED, _is(UPDATED) & mark)


def _is(kind: str) -> Column:
    return F.col(CHANGE) == kind


def _remains() -> Column:
    return _is(UPDATED) & ~F.col(MARKED)


def _moves() -> Column:
    return _is(UPDATED) & (F.col(PARTITION_PATH) != F.col(NEW_PATH))


def _key() -> Column:
    return F.when(_is(INSERTED), F.col(NEW_KEY)).otherwise(F.col(RECORD_KEY))


def _counted(rows: DataFrame) -> Survey:
    counts = rows.agg(
        F.count_if(_is(INSERTED)), F.count_if(_moves()), F.count_if(F.col(STAYS))
    ).first()
    assert counts is not None
    return Survey(*counts)


def _survey(rows: DataFrame, config: TableConfig, named_keys: bool, everywhere: bool) -> Survey:
    """Count new and moved rows; ``InvalidRecord`` if keys change, or if rows get the same key.

    Keys are compared within a partition, with ``everywhere`` in the whole table.
    """
    fields = config.record_key_fields
    renamed = _is(UPDATED) & ~F.col(NEW_KEY).eqNullSafe(F.col(RECORD_KEY))
    if len(fields) == 1:
        # A table may have rows with both forms of its key.
        other = record_key(rows.schema, fields, not named_keys)
        renamed &= ~other.eqNullSafe(F.col(RECORD_KEY))
    pair = F.struct(F.col(RECORD_KEY).alias("old"), F.col(NEW_KEY).alias("new"))
    keys = rows.where(~_is(DELETED)).groupBy(F.col(NEW_PATH), _key().alias(RECORD_KEY))
    each = keys.agg(
        F.count_if(_is(INSERTED)).alias("inserted"),
        F.count_if(_moves()).alias("moved"),
        F.count_if(F.col(STAYS)).alias("stayed"),
        F.count("*").alias("rows"),
        F.min(F.when(renamed, pair)).alias("renamed"),
    )
    meet = F.col("rows") > 1
    if everywhere:
        arrive = F.sum(F.col("inserted") + F.col("moved")) > 0
        each = each.groupBy(RECORD_KEY).agg(
            F.sum("inserted").alias("inserted"),
            F.sum("moved").alias("moved"),
            F.sum("stayed").alias("stayed"),
            F.min("renamed").alias("renamed"),
            (F.max(meet) | arrive & (F.count("*") > 1)).alias("meet"),
        )
        meet = F.col("meet")
    arrives = F.col("inserted") + F.col("moved") > 0
    several = F.when(meet, F.struct(F.col(RECORD_KEY).alias("key"), arrives.alias("arrives")))
    sums = [F.sum(name) for name in ("inserted", "moved", "stayed")]
    found = each.agg(*sums, F.min("renamed"), F.min(several)).first()
    assert found is not None
    inserted, moved, stayed, change, double = found
    if change is not None:
        raise InvalidRecord(
            f"The statement would change record keys, such as '{change.old}' to '{change.new}'. "
            f"The key ({', '.join(fields)}) identifies a row, so it cannot change. Nothing was "
            "written. Delete the rows and insert them with their new keys.",
            column=",".join(fields),
        )
    if double is not None:
        raise InvalidRecord(_doubled(double.key, double.arrives), column=",".join(fields))
    return Survey(inserted or 0, moved or 0, stayed or 0)


def _doubled(key: str, arrives: bool) -> str:
    """What is wrong with rows of one key; whether one ``arrives``, or all were there."""
    if arrives:
        return (
            f"The statement gives more than one row with the key '{key}'. Nothing was written. "
            "Keep only one row for each key in the source, and among rows that move to one "
            "partition."
        )
    return (
        f"The table has more than one row with the key '{key}', and rows of one key cannot be "
        "changed one by one. Nothing was written. Delete the rows of this key and insert one. "
        "INSERT adds such rows unless hoodie.spark.sql.insert.into.operation is upsert."
    )


def _placed(rows: DataFrame, names: Sequence[str], survey: Survey) -> DataFrame:
    """Each row at its place; a row that moves comes twice, as a delete and as an insert."""
    home, gone = F.col(HOME), _is(DELETED) | F.col(MARKED)
    path = F.when(gone, F.col(PARTITION_PATH)).otherwise(F.col(NEW_PATH))

    def step(path: Column, home: Column, gone: Column) -> Column:
        return F.struct(path.alias(PARTITION_PATH), home.alias(HOME), gone.alias(DELETE))

    steps = F.array(step(path, home, gone))
    if survey.moved:
        nowhere = F.lit(None).cast("string")
        arrival = step(F.col(NEW_PATH), nowhere, F.lit(False))
        departure = step(F.col(PARTITION_PATH), home, F.lit(True))
        steps = F.when(_moves(), F.array(arrival, departure)).otherwise(steps)
    exploded = rows.select(
        _key().alias(RECORD_KEY), MARKED, F.explode(steps).alias(STEP), *map(named, names)
    )
    # The delete of a moved row has no values, so no ordering value can prevent it.
    valued = ~F.col(f"{STEP}.{DELETE}") | F.col(MARKED)
    values = [F.when(valued, named(name)).alias(name) for name in names]
    return exploded.select(RECORD_KEY, f"{STEP}.*", *values)


def check_homes(changes: Survey, strangers: int) -> None:
    """``WriteFailed`` if rows name files that are not in the state that was read.

    ``strangers`` is the number of rows without such a file, new rows included.
    """
    lost = strangers - changes.inserted - changes.moved
    if lost > 0:  # fewer, if new rows have the keys of rows that a log has deleted
        raise WriteFailed(
            f"{lost} rows to change are in files that the table did not have when the statement "
            "began. Nothing was written. Run the statement again."
        )


def refuse_known_keys(keys: Iterable[str], config: TableConfig) -> None:
    """``InvalidRecord`` if ``keys`` of new rows are already in the table."""
    shown = ", ".join(keys)
    if shown:
        raise InvalidRecord(
            f"The statement would insert rows with keys that the table has already: {shown}. "
            "Nothing was written. Match these rows by their key and update them, or leave them "
            "out of the source.",
            column=",".join(config.record_key_fields),
        )
