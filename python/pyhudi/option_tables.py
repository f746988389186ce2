"""The option tables: every option that pyhudi reads, each a line with its key, default and reason.

A line of ``WriteOptions`` or ``ReadOptions`` is an option: the field's annotation is its type,
``option(...)`` gives its default, Hudi's key, its scope, the reason for it and its other names in
Hudi. The options of locks are in ``lock_options``; they are a part of ``WRITE_TABLE``. The options
page of the documentation is generated from these tables; ``config`` resolves values.

Scopes: ``TABLE`` options are recorded in hoodie.properties when the table is created and may later
only be repeated; ``WRITER`` options are free for each write; ``SESSION`` options belong to a query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyhudi.choices import (
    BloomType,
    ChangeForm,
    CleanPolicy,
    ClusteringChoice,
    ClusteringLayout,
    Codec,
    CompactionChoice,
    ConcurrencyMode,
    ConflictRule,
    DuplicatePolicy,
    FailedWrites,
    IndexType,
    InsertMode,
    Operation,
    Order,
    OverwriteMode,
    PartialUpdates,
    QueryType,
    SchemaConflicts,
    SortMode,
    TimeSourceType,
    TimestampType,
)
from pyhudi.format.change_log import LogContent
from pyhudi.format.markers import MarkerForm
from pyhudi.format.table_config import KeyGenerator, MergeMode, TableType
from pyhudi.lock_options import LOCK_TABLE, LockOptions
from pyhudi.option import Scope, option, rows_of
from pyhudi.payloads import (
    DELETE_FIELD,
    DELETE_MARKER,
    LEGACY,
    PARTIAL_UPDATE,
    UNAVAILABLE,
)

T, W, S = Scope.TABLE, Scope.WRITER, Scope.SESSION
MB = 1 << 20
DS = "hoodie.datasource.write."
LOGGING = "hoodie.table.cdc.supplemental.logging.mode"
INCREMENTAL = "hoodie.datasource.read."
STREAMING = "hoodie.datasource.streaming."
CALLBACK = "hoodie.write.commit.callback."
MARKERS = "hoodie.markers.timeline_server_based."
SINK = DS + "streaming."
CHECK = "hoodie.consistency.check."
CLUSTERING = "hoodie.clustering.plan.strategy."
COMPACTION = "hoodie.compaction."
#: true or false, which Apache Hudi's Hive sync says of the names that end in _ro and _rt
AS_RO_TABLE = "hoodie.query.as.ro.table"
#: Spark's own setting for the same
SPARK_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
KEYGEN, OLD_KEYGEN = "hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased."


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """All options of a write, resolved. ``None``: nobody set it, and it has no fixed default."""

    # ---- what the table is
    table_name: str | None = option(None, "hoodie.table.name", T,
        "Names the table in its properties and schemas; Hudi refuses a write with another name.",
        DS + "table.name")
    database: str | None = option(None, "hoodie.database.name", T,
        "Part of the checksum of hoodie.properties.")
    table_type: TableType = option(TableType.COPY_ON_WRITE, DS + "table.type", T,
        "Merge-on-read writes less and reads more: updates go to log files.",
        "hoodie.table.type", DS + "storage.type", "type")
    table_version: int = option(9, "hoodie.write.table.version", T,
        "Hudi 1.1 and later make version 9 and never upgrade it; 6 is for readers like Hudi 0.15.",
        "hoodie.table.version")
    record_key_fields: tuple[str, ...] = option((), DS + "recordkey.field", T,
        "Columns of the record key; without one, keys are generated and writes insert.",
        "hoodie.table.recordkey.fields", "primaryKey")
    partition_fields: tuple[str, ...] = option((), DS + "partitionpath.field", T,
        "Columns of the partition path; empty for a table in one folder.",
        "hoodie.table.partition.fields")
    ordering_fields: tuple[str, ...] = option((), "hoodie.table.ordering.fields", T,
        "The larger value wins among rows of one key; several columns compare in order.",
        DS + "precombine.field", "hoodie.table.precombine.field", "orderingFields",
        "preCombineField")
    merge_mode: MergeMode | None = option(None, "hoodie.record.merge.mode", T,
        "Which of two rows with one key stays; event time order if there are ordering fields.",
        "hoodie.write.record.merge.mode", "recordMergeMode", DS + "payload.class", "payloadClass",
        "hoodie.compaction.payload.class", "hoodie.record.merge.strategy.id",
        "hoodie.write.record.merge.strategy.id", DS + "record.merger.strategy")
    payload_class: str | None = option(None, LEGACY, T,
        "The payload class that a table of version 9 was made for; the options beside it say more.")
    partial_updates: PartialUpdates | None = option(None, PARTIAL_UPDATE, T,
        "Which values of a row leave the old value: null, or those that a source marks as unknown.")
    unavailable_value: str | None = option(None, UNAVAILABLE, T,
        "With FILL_UNAVAILABLE: the text that stands for a value that the source did not have.",
        "hoodie.write.partial.update.unavailable.value")
    delete_field: str | None = option(None, DELETE_FIELD, T,
        "A column that says which rows are deletes, as change data has; beside the marker below.",
        "hoodie.payload.delete.field")
    delete_marker: str | None = option(None, DELETE_MARKER, T,
        "The text in that column which marks a row as a delete.", "hoodie.payload.delete.marker")
    key_generator: KeyGenerator | None = option(None, DS + "keygenerator.type", T,
        "How key and partition path are made; inferred from the number of fields.",
        DS + "keygenerator.class", "hoodie.table.keygenerator.type",
        "hoodie.table.keygenerator.class")
    value_only_keys: bool | None = option(None, "hoodie.write.complex.keygen.new.encoding", W,
        "Versions 6 and 8, complex generator, one column: key 1, not id:1. Existing files decide.")
    hive_style: bool = option(False, DS + "hive_style_partitioning", T,
        "Folders named column=value, as Hive names them.")
    url_encode: bool = option(False, DS + "partitionpath.urlencode", T,
        "Escapes partition values that hold a slash or other special characters.")
    change_logs: bool = option(False, "hoodie.table.cdc.enabled", T,
        "A log beside each merged file, by which Hudi and pyhudi read change data.")
    change_log_content: LogContent = option(LogContent.DATA_BEFORE_AFTER, LOGGING, T,
        "What change logs have; the slices give what is not there.")
    timestamp_type: TimestampType | None = option(None, KEYGEN + "timestamp.type", T,
        "What the column of a timestamp-based partition holds.",
        OLD_KEYGEN + "timestamp.type")
    timestamp_input_formats: tuple[str, ...] = option((), KEYGEN + "input.dateformat", T,
        "Java patterns of a DATE_STRING or MIXED column; the first that fits is used.",
        OLD_KEYGEN + "input.dateformat")
    timestamp_output_format: str | None = option(None, KEYGEN + "output.dateformat", T,
        "Java pattern of the partition path.", OLD_KEYGEN + "output.dateformat")
    timestamp_zone: str | None = option(None, KEYGEN + "timezone", T,
        "Zone of input and output; the two options below stay away then.", OLD_KEYGEN + "timezone")
    timestamp_input_zone: str | None = option(None, KEYGEN + "input.timezone", T,
        "Zone in which text without one is read.", OLD_KEYGEN + "input.timezone")
    timestamp_output_zone: str | None = option(None, KEYGEN + "output.timezone", T,
        "Zone in which the partition path is written.", OLD_KEYGEN + "output.timezone")
    timestamp_unit: str = option("SECONDS", KEYGEN + "timestamp.scalar.time.unit", T,
        "Java TimeUnit of a SCALAR column.", OLD_KEYGEN + "timestamp.scalar.time.unit")

    # ---- what this write does
    operation: Operation | None = option(None, DS + "operation", W,
        "upsert if the table has a key, otherwise insert; SQL statements choose their own.")
    partitions_to_delete: tuple[str, ...] = option((), DS + "partitions.to.delete", W,
        "Partition paths for delete_partition; a trailing * stands for any ending.")
    overwrite_mode: OverwriteMode | None = option(None, "hoodie.datasource.overwrite.mode", W,
        "Dynamic replaces only the partitions that are written; an overwrite operation wins.",
        "partitionOverwriteMode", SPARK_OVERWRITE_MODE)
    combine_before_insert: bool = option(False, "hoodie.combine.before.insert", W,
        "Merges rows with the same key into one row before an insert.")
    combine_before_upsert: bool = option(True, "hoodie.combine.before.upsert", W,
        "Merges rows with the same key into one row before an upsert.")
    insert_drop_duplicates: bool = option(False, DS + "insert.drop.duplicates", W,
        "Skips keys that the table has, and keeps one row of each new key; upsert then inserts.")
    duplicate_policy: DuplicatePolicy = option(
        DuplicatePolicy.NONE, "hoodie.datasource.insert.dup.policy", W,
        "What insert does with keys that the table already has; unless it is none, upsert inserts.")
    bulk_sort_mode: SortMode = option(SortMode.NONE, "hoodie.bulkinsert.sort.mode", W,
        "How bulk_insert arranges its rows; NONE is a single pass with no shuffle.")
    null_for_missing: bool = option(False, "hoodie.write.set.null.for.missing.columns", W,
        "Fills columns that the table has and the input lacks.")
    commit_metadata_prefix: str = option("_", DS + "commitmeta.key.prefix", W,
        "Options with this prefix are stored in the commit's extra metadata.")
    sql_insert_operation: Operation | None = option(
        None, "hoodie.spark.sql.insert.into.operation", W,
        "What INSERT INTO does: insert, bulk_insert or upsert.")
    sql_insert_mode: InsertMode | None = option(None, "hoodie.sql.insert.mode", W,
        "Hudi's older option for the same; it counts only if the newer one is not set.")
    sql_bulk_insert: bool = option(False, "hoodie.sql.bulk.insert.enable", W,
        "With hoodie.sql.insert.mode=non-strict INSERT INTO is a bulk_insert.")

    # ---- the micro-batches of a stream
    stream_name: str = option("default_single_writer", SINK + "checkpoint.identifier", W,
        "Names the stream: the table knows the last batch of each name, so two streams need two.")
    stream_replaces: str | None = option(None, SINK + "checkpoint.replaces", W,
        "The query that this one takes its stream over from, as after a fresh checkpoint; * any.")
    stream_evolves: bool = option(True, SINK + "schema.evolve", W,
        "Whether a stream may add or widen columns; false ends it before it does.")

    # ---- which file a row goes to
    index_type: IndexType = option(IndexType.SIMPLE, "hoodie.index.type", W,
        "How the file of a key is found; a Hudi table does not record it.")
    bucket_count: int = option(256, "hoodie.bucket.index.num.buckets", W,
        "File groups per partition under the bucket index; all writers must set the same number.",
        minimum=1)
    bucket_fields: tuple[str, ...] = option((), "hoodie.bucket.index.hash.field", W,
        "Columns of the bucket hash, a part of the record key; the whole key by default.")
    update_partition_path: bool = option(True, "hoodie.simple.index.update.partition.path", W,
        "False: under the global simple index a row keeps its old partition, folder and values.")
    bloom_update_partition_path: bool = option(True, "hoodie.bloom.index.update.partition.path", W,
        "False: under the global bloom index a row keeps its old partition, folder and values.")
    most_logged_percent: int = option(20, "hoodie.log.most.changed.percent", W,
        "A write that changes more of a base file without logs writes it anew; 100: none.")
    key_state_bytes: int = option(256 * MB, "hoodie.index.key.state.max.bytes", W,
        "Memory of the driver that remembers the file of each key of this table; 0: none.",
        minimum=0)
    bloom_type: BloomType = option(BloomType.SIMPLE, "hoodie.bloom.index.filter.type", W,
        "SIMPLE is sized to the rows of its file; Hudi's default DYNAMIC_V0 begins at 431 kB.")
    bloom_entries: int = option(60_000, "hoodie.index.bloom.num_entries", W,
        "Keys that a filter has room for, if the number of rows in the file is not known.",
        minimum=1)
    bloom_fpp: float = option(1e-9, "hoodie.index.bloom.fpp", W,
        "False positives: the share of absent keys that a filter reports as present.")
    bloom_max_entries: int = option(100_000, "hoodie.bloom.index.filter.dynamic.max.entries", W,
        "Keys at which a dynamic filter stops growing.", minimum=1)
    max_file_bytes: int = option(120 * MB, "hoodie.parquet.max.file.size", W,
        "Size at which a base file is full.", minimum=1)
    small_file_bytes: int = option(100 * MB, "hoodie.parquet.small.file.limit", W,
        "Base files below it take new keys; 0 leaves small files alone.")
    record_bytes: int = option(1024, "hoodie.copyonwrite.record.size.estimate", W,
        "Bytes of a row on disk, until the table's commits show the real size.", minimum=1)
    codec: Codec = option(Codec.SNAPPY, "hoodie.parquet.compression.codec", W,
        "Hudi's default is gzip: a third smaller here, for more than twice the CPU of encoding.")
    row_group_bytes: int = option(32 * MB, "hoodie.parquet.block.size", W,
        "Size of a row group, which a merge holds in memory; Hudi's default is 120 MB.", minimum=1)

    # ---- markers of data files, by which a failed write is undone
    marker_form: MarkerForm | None = option(None, "hoodie.write.markers.type", W,
        "Lists in a few files that the driver's server keeps; on HDFS direct, a file per marker.")
    marker_interval_ms: int = option(50, MARKERS + "batch.interval_ms", W,
        "Longest time in which requests for markers gather; a single request never waits.")
    marker_threads: int = option(20, MARKERS + "batch.num_threads", W,
        "Batches of markers that are written at the same time, each to its own file; 20 at most.",
        minimum=1)
    marker_port: int = option(0, "hoodie.embed.timeline.server.port", W,
        "Port at which executors ask the driver for markers; 0 takes any free port.")

    # ---- stores whose listings lag behind
    await_visible: bool = option(False, "hoodie.consistency.check.enabled", W,
        "Commits only when listings show the new files and no deleted ones.")
    visible_first_ms: int = option(2_000, CHECK + "initial_interval_ms", W,
        "Pause after the first look; each later pause is twice as long.", minimum=1)
    visible_longest_ms: int = option(300_000, CHECK + "max_interval_ms", W,
        "Longest pause between two looks.", minimum=1)
    visible_looks: int = option(7, CHECK + "max_checks", W,
        "Number of looks before the write fails.", minimum=1)

    # ---- other writers
    concurrency_mode: ConcurrencyMode = option(
        ConcurrencyMode.SINGLE_WRITER, "hoodie.write.concurrency.mode", W,
        "OPTIMISTIC retries lost races, NON_BLOCKING only adds logs, PESSIMISTIC locks groups.")
    most_group_locks: int = option(1_000, "hoodie.write.lock.groups.max", W,
        "File groups that one pessimistic write may lock; more are an error.", minimum=1)
    conflict_retries: int = option(4, "hoodie.write.num.retries.on.conflict.failures", W,
        "How often a write that lost a race is done again, as a new instant; Hudi's default is 0.")
    conflict_rule: ConflictRule = option(
        ConflictRule.SIMPLE, "hoodie.write.lock.conflict.resolution.strategy", W,
        "What two writes must not share: file groups, partitions, or buckets.",
        "hoodie.write.conflict.resolution.strategy")
    early_conflicts: bool = option(
        False, "hoodie.write.concurrency.early.conflict.detection.enable", W,
        "Before data is written, looks for running writes that change the same file groups.")
    reverse_clustering: bool = option(
        False, "hoodie.write.concurrency.reverse.clustering.enable", W,
        "A write that lost a race against a clustering takes it back, and is not done again.")
    key_conflicts: bool = option(True, "hoodie.write.concurrency.key.conflict.check.enable", W,
        "Two upserts cannot add one key to two files; false saves the comparison of their keys.")
    schema_conflicts: SchemaConflicts = option(
        SchemaConflicts.SIMPLE, "hoodie.write.concurrency.schema.conflict.resolution.strategy", W,
        "Of two schema changes at the same time the second fails; reconcile merges both.")
    time_source: TimeSourceType = option(TimeSourceType.CLOCK, "hoodie.time.generator.type", W,
        "Source of times: the clock, or a counter beside the lock in ZooKeeper or DynamoDB.")
    failed_writes: FailedWrites | None = option(None, "hoodie.clean.failed.writes.policy", W,
        "Who rolls failed writes back: the next write, or (LAZY) one that sees a stale heartbeat.",
        "hoodie.cleaner.policy.failed.writes")
    heartbeat_ms: int = option(60_000, "hoodie.client.heartbeat.interval_in_ms", W,
        "How often a writer renews its heartbeat.", minimum=1)
    heartbeat_misses: int = option(2, "hoodie.client.heartbeat.tolerable.misses", W,
        "Heartbeats that a writer may miss before others take it for dead.", minimum=1)

    # ---- after the commit
    table_services: bool = option(True, "hoodie.table.services.enabled", W,
        "Plans table services that are due; false if a separate job does that.")
    clean_inline: bool = option(True, "hoodie.clean.automatic", W,
        "Cleans the table after the commit, if a clean is due.")
    clean_trigger: int = option(1, "hoodie.clean.trigger.max.commits", W,
        "An inline clean is due after so many commits.", "hoodie.clean.max.commits", minimum=1)
    clean_policy: CleanPolicy = option(CleanPolicy.COMMITS, "hoodie.clean.policy", W,
        "Old versions of files are kept by commits, by hours, or by their number.",
        "hoodie.cleaner.policy")
    commits_retained: int = option(10, "hoodie.clean.commits.retained", W,
        "By commits: what the last so many commits show is kept.",
        "hoodie.cleaner.commits.retained", minimum=1)
    hours_retained: int = option(24, "hoodie.clean.hours.retained", W,
        "By hours: what the commits of the last so many hours show is kept.",
        "hoodie.cleaner.hours.retained", minimum=1)
    versions_retained: int = option(3, "hoodie.clean.fileversions.retained", W,
        "By versions: so many of each file group are kept.",
        "hoodie.cleaner.fileversions.retained", minimum=1)
    clean_partitions: str | None = option(None, "hoodie.clean.partition.filter.selected", W,
        "Only these partition paths are cleaned, separated by commas.",
        "hoodie.cleaner.partition.filter.selected")
    clean_partition_regex: str | None = option(None, "hoodie.clean.partition.filter.regex", W,
        "Only partition paths that match as a whole are cleaned; a list of partitions goes first.",
        "hoodie.cleaner.partition.filter.regex")
    cluster_inline: bool = option(False, "hoodie.clustering.inline", W,
        "Clusters the table after the commit, if that is due; the write waits for it.",
        "hoodie.datasource.clustering.inline.enable")
    cluster_trigger: int = option(4, "hoodie.clustering.inline.max.commits", W,
        "An inline clustering is due after so many commits without one.", minimum=1)
    cluster_choice: ClusteringChoice = option(
        ClusteringChoice.SMALL_FILES, CLUSTERING + "class", W,
        "A clustering rewrites small files, files that overlap in the sort columns, or all.")
    cluster_columns: tuple[str, ...] = option((), CLUSTERING + "sort.columns", W,
        "Columns by which a clustering sorts the rows of each group of files.")
    cluster_layout: ClusteringLayout = option(
        ClusteringLayout.LINEAR, "hoodie.layout.optimize.strategy", W,
        "Sorts by one column after the other, or along a curve through all of them.")
    cluster_target_bytes: int = option(120 * MB, CLUSTERING + "target.file.max.bytes", W,
        "Size of the files that a clustering writes; Hudi's default is 1 GB.", minimum=1)
    cluster_small_bytes: int = option(100 * MB, CLUSTERING + "small.file.limit", W,
        "Files below it are small for a clustering; Hudi's default is 300 MB.", minimum=0)
    cluster_group_bytes: int = option(512 * MB, CLUSTERING + "max.bytes.per.group", W,
        "A clustering rewrites at most so much in one task; Hudi's default is 2 GB.", minimum=1)
    cluster_groups: int = option(30, CLUSTERING + "max.num.groups", W,
        "The budget of one clustering: so many groups of files; the next one goes on.", minimum=1)
    cluster_partitions: str | None = option(None, CLUSTERING + "partition.selected", W,
        "Only these partition paths are clustered, separated by commas.")
    cluster_partition_regex: str | None = option(None, CLUSTERING + "partition.regex.pattern", W,
        "Only partition paths that match as a whole are clustered; a list of them goes first.")
    compact_inline: bool = option(True, "hoodie.compact.inline", W,
        "Compacts a merge-on-read table after the commit, if that is due; the write waits for it.")
    compact_trigger: int = option(5, "hoodie.compact.inline.max.delta.commits", W,
        "An inline compaction is due after so many delta commits without one.", minimum=1)
    compact_choice: CompactionChoice | None = option(None, COMPACTION + "strategy", W,
        "Takes slices with the largest logs first, or the most, or all; unset, a write spares "
        "cheap logs.")
    compact_log_bytes: int = option(0, COMPACTION + "logfile.size.threshold", W,
        "By size: slices with fewer bytes of logs are not compacted.")
    compact_log_files: int = option(0, COMPACTION + "logfile.num.threshold", W,
        "By number: slices with fewer log files are not compacted.")
    compact_io_mb: int = option(500 * 1024, COMPACTION + "target.io", W,
        "The budget of a compaction that is not unbounded: MB that it reads and writes.", minimum=1)
    compact_partition_regex: str | None = option(None, COMPACTION + "partition.path.regex", W,
        "Only partition paths in which this is found are compacted.")
    log_compact_inline: bool = option(False, "hoodie.log.compaction.inline", W,
        "Merges the logs of a slice into one log after the commit, if that is due.")
    log_compact_logs: int = option(5, "hoodie.log.compaction.blocks.threshold", W,
        "So many delta commits make a log compaction due, and so many logs a slice.", minimum=2)
    archive_inline: bool = option(True, "hoodie.archive.automatic", W,
        "Archives old instants after the commit, if an archive is due.")
    keep_max_commits: int = option(30, "hoodie.keep.max.commits", W,
        "With more completed commits on the timeline an archive is due.", minimum=1)
    keep_min_commits: int = option(20, "hoodie.keep.min.commits", W,
        "An archive leaves so many of the newest commits on the timeline.", minimum=1)
    callback_on: bool = option(False, CALLBACK + "on", W,
        "Posts a message about each commit to a URL, as Hudi does.")
    callback_url: str | None = option(None, CALLBACK + "http.url", W,
        "Where the message goes: http or https.")
    callback_timeout_s: int = option(30, CALLBACK + "http.timeout.seconds", W,
        "How long the writer waits for an answer; without one the commit still stands.", minimum=1)
    callback_api_key: str = option(
        "hudi_write_commit_http_callback", CALLBACK + "http.api.key", W,
        "Sent as the header HUDI-CALLBACK-KEY.")
    callback_headers: str | None = option(None, CALLBACK + "http.custom.headers", W,
        "Additional headers, as Name:value;Name:value.")

    # ---- filled by resolve_write; not options
    lock: LockOptions = field(default_factory=LockOptions)
    commit_metadata: Mapping[str, str] = field(default_factory=dict)
    other: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """All options of a read, resolved."""

    query_type: QueryType = option(QueryType.SNAPSHOT, "hoodie.datasource.query.type", S,
        "Snapshot, (merge-on-read) base files only, or the rows that a range of commits changed.",
        "hoodie.datasource.view.type", AS_RO_TABLE)
    begin: str | None = option(None, INCREMENTAL + "begin.instanttime", S,
        "Incremental: rows of commits after this time; earliest for all.")
    end: str | None = option(None, INCREMENTAL + "end.instanttime", S,
        "Incremental: up to this time, inclusively; without it up to now.")
    order: Order | None = option(None, INCREMENTAL + "incr.order", S,
        "Incremental: which times begin and end are; completed, but fenced in table version 6.",
        "hoodie.read.timeline.holes.resolution.policy")
    change_form: ChangeForm = option(
        ChangeForm.LATEST_STATE, "hoodie.datasource.query.incremental.format", S,
        "Incremental: rows as the range leaves them; or before and after each change (cdc: JSON).")
    of_the_rest: bool = option(False, INCREMENTAL + "incr.fallback.fulltablescan.enable", S,
        "Incremental: of a cleaned range the rows not changed again since; Hudi's default is true.")
    end_schema: bool = option(False, INCREMENTAL + "schema.use.end.instanttime", S,
        "Incremental: columns as of the last commit of the range, not those of now.")
    saves: bool = option(False, "hoodie.datasource.read.savepoint.enable", S,
        "A long query has a savepoint until it ends: Hudi's cleaner knows nothing of its lease.")
    as_of: str | None = option(None, "as.of.instant", S,
        "Time travel: the table after this instant, or as of this time.")
    start_offset: str = option("earliest", STREAMING + "startOffset", S,
        "Stream: earliest (the rows of now, then each commit), latest, or after a time.")
    appends_only: bool = option(False, STREAMING + "appendsOnly", S,
        "Stream: only rows that are inserted, not those that are updated.")
    trigger_files: int | None = option(None, STREAMING + "maxFilesPerTrigger", S,
        "Stream: most files of one batch, which has at least one; a commit may take several.",
        "maxFilesPerTrigger", minimum=1)
    trigger_bytes: int | None = option(None, STREAMING + "maxBytesPerTrigger", S,
        "Stream: most bytes of the files of one batch, but at least one file.",
        "maxBytesPerTrigger", minimum=1)
    trigger_rows: int | None = option(None, STREAMING + "maxRowsPerTrigger", S,
        "Stream: most changed rows of one batch, but at least those of one file.",
        "maxRowsPerTrigger", minimum=1)

    other: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    @property
    def follows(self) -> bool:
        """Whether it has no begin, so that only a stream can answer it."""
        return self.query_type is QueryType.INCREMENTAL and not self.begin
# fmt: on


WRITE_TABLE, READ_TABLE = (*rows_of(WriteOptions), *LOCK_TABLE), rows_of(ReadOptions)
