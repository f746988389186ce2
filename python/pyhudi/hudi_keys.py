"""Apache Hudi's keys that are not options here, so that scripts that set them still run.

``config`` looks a key up here if the option table does not know it. A key in neither is a mistake.
Checked against the keys of Hudi 1.2.0 and 0.15.0.
"""

from __future__ import annotations

from collections.abc import Mapping

# Keys for which pyhudi supports one value. Another value is an error if it would change rows
# (True), and a warning if the rows are the same without it (False).
FIXED: Mapping[str, tuple[str, bool]] = {
    "hoodie.populate.meta.fields": ("true", True),
    "hoodie.datasource.write.drop.partition.columns": ("false", True),
    "hoodie.datasource.write.slash.separated.date.partitioning": ("false", True),
    "hoodie.table.base.file.format": ("parquet", True),
    "hoodie.base.file.format": ("parquet", True),
    "hoodie.table.cdc.enabled": ("false", True),
    "hoodie.table.multiple.base.file.formats.enable": ("false", True),
    "hoodie.table.format": ("native", True),
    "hoodie.index.bucket.engine": ("simple", True),
    "hoodie.metadata.enable": ("false", False),
    "hoodie.write.auto.upgrade": ("false", False),
    "hoodie.datasource.hive_sync.enable": ("false", False),
    "hoodie.datasource.meta.sync.enable": ("false", False),
}

# Families of Hudi keys without effect here: services and engines that pyhudi lacks or replaces.
IGNORED_PREFIXES: tuple[str, ...] = tuple(
    f"hoodie.{family}."
    for family in """
    archive avro bootstrap bulkinsert.user.defined.partitioner clean cleaner clustering common
    compact compaction datasource.clustering datasource.compaction
    datasource.hive_sync datasource.meta.sync datasource.meta_sync datasource.read
    datasource.streaming datasource.write.streaming deltastreamer embed.timeline.server
    errortable expression file.index filesystem hfile index.hbase lance layout log logfile
    markers memory merge meta.sync meta_sync metadata metaserver metrics
    optimistic.consistency orc partition.ttl payload precommit prewrite record.index
    record.merge.property record.size rollback schema storage streamer table.service
    table.services time timeline write.buffer write.commit.callback write.concurrency
    write.executor write.partial.update write.rolling.metadata
    """.split()
)

# Single Hudi keys without effect here.
IGNORED: frozenset[str] = frozenset(
    f"hoodie.{key}"
    for key in """
    allow.empty.commit allow.multi.write.on.same.instant allow.operation.metadata.field
    archivelog.folder assume.date.partitioning auto.adjust.lock.configs auto.commit base.path
    block.writes.on.speculative.execution bloom.index.bucketized.checking
    bloom.index.fileid.key.sorting.enable bloom.index.input.storage.level
    bloom.index.keys.per.bucket bloom.index.prune.by.ranges bloom.index.update.partition.path
    bloom.index.use.caching bloom.index.use.metadata bloom.index.use.treebased.filter
    bucket.index.query.pruning bucket.index.remote.partitioner.enable
    bulkinsert.are.partitioner.records.sorted bulkinsert.schema.ddl
    bulkinsert.sort.suffix.record_key cdc.file.group.iterator.memory.spill.bytes
    client.init.callback.classes commits.archival.batch copyonwrite.insert.auto.split
    copyonwrite.insert.split.size datasource.merge.type datasource.partition_extractor_class
    datasource.query.incremental.format
    datasource.write.keygenerator.consistent.logical.timestamp.enabled
    datasource.write.reconcile.schema datasource.write.record.merger.impls
    datasource.write.row.writer.enable
    datasource.write.schema.allow.auto.evolution.column.drop enable.data.skipping
    fail.job.on.duplicate.data.file.detection fail.on.timeline.archiving
    fail.writes.on.inline.table.service.exception file.group.reader.enabled
    fileid.prefix.provider.class fs.atomic_creation.support index.class index.name
    internal.schema io.factory.class keep.max.commits keep.min.commits
    keygen.datetime.parser.class keygen.timebased.input.dateformat.list.delimiter.regex
    optimized.log.blocks.scan.enable parquet.bloom.filter.enabled parquet.compression.ratio
    parquet.dictionary.enabled parquet.field_id.write.enabled parquet.outputtimestamptype
    parquet.page.size parquet.spark.row.write.support.class
    parquet.write.config.injector.class parquet.write.utc-timezone.enabled
    parquet.writelegacyformat.enabled partition.metafile.use.base.format
    post.commit.failures.ignored read.blob.inline.mode read.timeline.holes.resolution.policy
    release.resource.on.completion.enable sensitive.config.keys
    simple.index.input.storage.level simple.index.use.caching
    skip.default.partition.validation spark.sql.merge.into.partial.updates
    spark.sql.optimized.writes.enable sql.bulk.insert.enable table.checksum
    table.create.schema table.index.defs.path table.initial.version table.log.file.format
    table.metadata.partitions table.metadata.partitions.inflight
    table.partition_extractor_class table.timeline.timezone write.application.id
    write.can.ignore.post.commit.failures
    write.complex.keygen.validation.enable write.concat.handle.class
    write.empty.clean.interval.hours write.ignore.failed
    write.lock.app_id write.lock.client.num_retries write.lock.client.wait_time_ms_between_retry
    write.lock.heartbeat_interval_ms
    write.lock.max_wait_time_ms_between_retry write.lock.num_retries
    write.lock.storage.heartbeat.poll.secs write.lock.storage.renew.interval.secs
    write.lock.wait_time_ms_between_retry write.merge.handle.class write.merge.handle.fallback
    write.record.merge.custom.implementation.classes write.record.positions write.schema
    write.status.storage.level write.tagged.record.storage.level
    write.track.event.time.watermark writes.fileid.encoding writestatus.class
    """.split()
)


def has_no_effect(key: str) -> bool:
    """Whether the lower-case ``key`` is a Hudi key that pyhudi knows and ignores."""
    return key in IGNORED or key.startswith(IGNORED_PREFIXES) or key.endswith("parallelism")
