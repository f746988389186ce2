"""Plans and metadata of table services: cleaning, rollback, compaction, clustering and others.

All are Avro records in every layout (spec/timeline.md T5, T9), so each is a dataclass and two
functions. The kinds have different forms of paths, which are kept as in the file: see each field's
comment. ``parse`` of ``render`` is the identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyhudi.format.filenames import FileId, path_in
from pyhudi.format.instants import InstantTime
from pyhudi.format.records import avro_name, parse_record, render_record

Strings = tuple[str, ...]
Numbers = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class InstantInfo:
    """An instant that is rolled back."""

    commit_time: InstantTime
    action: str


# --- cleaning -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ActionInstant:
    """The earliest instant that a clean keeps complete; ``state`` is in capitals, as in Java."""

    timestamp: InstantTime
    action: str
    state: str = "COMPLETED"


@dataclass(frozen=True, slots=True)
class CleanFile:
    """A file to be deleted, by its absolute URI."""

    file_path: str
    is_bootstrap_base_file: bool = False


@dataclass(frozen=True, slots=True)
class CleanerPlan:
    """``clean.requested``: files to be deleted by partition."""

    earliest_instant_to_retain: ActionInstant | None
    last_completed_commit_timestamp: str
    policy: str
    file_paths_to_be_deleted_per_partition: Mapping[str, tuple[CleanFile, ...]]
    files_to_be_deleted_per_partition: Mapping[str, Strings] = field(default_factory=dict)
    partitions_to_be_deleted: Strings = ()
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    version: int | None = 2


@dataclass(frozen=True, slots=True)
class CleanedPartition:
    """The outcome for one partition's files, by bare names."""

    partition_path: str
    policy: str
    delete_path_patterns: Strings
    success_delete_files: Strings
    failed_delete_files: Strings = ()
    is_partition_deleted: bool = False


@dataclass(frozen=True, slots=True)
class CleanMetadata:
    """``clean``: what was deleted; time taken in milliseconds."""

    start_clean_time: str
    time_taken_in_millis: int
    total_files_deleted: int
    earliest_commit_to_retain: str
    last_completed_commit_timestamp: str
    partition_metadata: Mapping[str, CleanedPartition]
    bootstrap_partition_metadata: Mapping[str, CleanedPartition] = field(default_factory=dict)
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    version: int | None = 2


# --- rollback and restore -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RollbackRequest:
    """Files of one group to be deleted (absolute paths), log blocks by log file (layout 1)."""

    partition_path: str
    file_id: FileId
    latest_base_instant: str
    files_to_be_deleted: Strings
    log_blocks_to_be_deleted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """``rollback.requested``."""

    instant_to_rollback: InstantInfo | None
    requests: tuple[RollbackRequest, ...] = avro_name("RollbackRequests", ())
    version: int | None = 1


@dataclass(frozen=True, slots=True)
class RolledBackPartition:
    """Files deleted in one partition (absolute paths) and log files written or found, by size."""

    partition_path: str
    success_delete_files: Strings
    failed_delete_files: Strings = ()
    rollback_log_files: Mapping[str, int] = field(default_factory=dict)
    log_files_from_failed_commit: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RollbackMetadata:
    """``rollback``: time taken in milliseconds."""

    start_rollback_time: str
    time_taken_in_millis: int
    total_files_deleted: int
    commits_rollback: Strings
    partition_metadata: Mapping[str, RolledBackPartition]
    instants_rollback: tuple[InstantInfo, ...] = ()
    version: int | None = 1


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """``restore.requested``: newest instant first."""

    instants_to_rollback: tuple[InstantInfo, ...]
    savepoint_to_restore_timestamp: str | None = None
    version: int | None = 2


@dataclass(frozen=True, slots=True)
class RestoreMetadata:
    """``restore``: the rollbacks made, by instant."""

    start_restore_time: str
    time_taken_in_millis: int
    instants_to_rollback: Strings
    rollbacks: Mapping[str, tuple[RollbackMetadata | None, ...]] = avro_name(
        "hoodieRestoreMetadata"
    )
    restore_instant_info: tuple[InstantInfo, ...] = ()
    version: int | None = 1


# --- savepoint ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SavepointPartition:
    """The files that a savepoint keeps in one partition, by bare names."""

    partition_path: str
    savepoint_data_file: Strings


@dataclass(frozen=True, slots=True)
class SavepointMetadata:
    """``savepoint``; ``savepointed_at`` in milliseconds since the epoch."""

    savepointed_by: str
    savepointed_at: int
    comments: str
    partition_metadata: Mapping[str, SavepointPartition]
    version: int | None = 1


# --- compaction and clustering ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CompactionOperation:
    """One file slice to be compacted; file names relative to the partition."""

    base_instant_time: InstantTime
    delta_file_paths: Strings
    data_file_path: str | None
    file_id: FileId
    partition_path: str
    metrics: Numbers = field(default_factory=dict)
    bootstrap_file_path: str | None = None

    @property
    def log_paths(self) -> list[str]:
        """Its logs, relative to the table; Apache Hudi may name them with their folder."""
        names = (path.rpartition("/")[2] for path in self.delta_file_paths)
        return [path_in(self.partition_path, name) for name in names]


@dataclass(frozen=True, slots=True)
class CompactionStrategy:
    """How a compaction is to be run, if that was recorded."""

    compactor_class_name: str | None = None
    strategy_params: Mapping[str, str] = field(default_factory=dict)
    version: int | None = 1


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """``compaction.requested``."""

    operations: tuple[CompactionOperation, ...]
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    strategy: CompactionStrategy | None = None
    preserve_hoodie_metadata: bool | None = False
    missing_schedule_partitions: Strings = ()
    version: int | None = 2


@dataclass(frozen=True, slots=True)
class ClusteringSlice:
    """One input file slice, by absolute URIs."""

    data_file_path: str
    delta_file_paths: Strings
    file_id: FileId
    partition_path: str
    bootstrap_file_path: str | None = None
    version: int | None = 1


@dataclass(frozen=True, slots=True)
class ClusteringGroup:
    """Input slices that become ``num_output_file_groups`` new file groups."""

    slices: tuple[ClusteringSlice, ...]
    metrics: Numbers = field(default_factory=dict)
    num_output_file_groups: int | None = 1
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = 1


@dataclass(frozen=True, slots=True)
class ClusteringStrategy:
    """The class that runs a clustering, and its parameters (sort columns, sizes)."""

    strategy_class_name: str | None = None
    strategy_params: Mapping[str, str] = field(default_factory=dict)
    version: int | None = 1


@dataclass(frozen=True, slots=True)
class ClusteringPlan:
    """Groups of file slices to be rewritten; part of ``RequestedReplace``."""

    input_groups: tuple[ClusteringGroup, ...]
    strategy: ClusteringStrategy | None = None
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    preserve_hoodie_metadata: bool | None = True
    missing_schedule_partitions: Strings = ()
    version: int | None = 1


@dataclass(frozen=True, slots=True)
class RequestedReplace:
    """``replacecommit.requested`` or ``clustering.requested``; all empty for overwrites."""

    operation_type: str | None = None
    clustering_plan: ClusteringPlan | None = None
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = None


def parse_cleaner_plan(data: bytes, path: str) -> CleanerPlan:
    """Raises ``TableCorrupt`` with ``path``, as all parsers here do."""
    return parse_record(CleanerPlan, data, path)


def render_cleaner_plan(plan: CleanerPlan) -> bytes:
    return render_record("HoodieCleanerPlan", plan)


def parse_clean_metadata(data: bytes, path: str) -> CleanMetadata:
    return parse_record(CleanMetadata, data, path)


def render_clean_metadata(metadata: CleanMetadata) -> bytes:
    return render_record("HoodieCleanMetadata", metadata)


def parse_rollback_plan(data: bytes, path: str) -> RollbackPlan:
    return parse_record(RollbackPlan, data, path)


def render_rollback_plan(plan: RollbackPlan) -> bytes:
    return render_record("HoodieRollbackPlan", plan)


def parse_rollback_metadata(data: bytes, path: str) -> RollbackMetadata:
    return parse_record(RollbackMetadata, data, path)


def render_rollback_metadata(metadata: RollbackMetadata) -> bytes:
    return render_record("HoodieRollbackMetadata", metadata)


def parse_restore_plan(data: bytes, path: str) -> RestorePlan:
    return parse_record(RestorePlan, data, path)


def render_restore_plan(plan: RestorePlan) -> bytes:
    return render_record("HoodieRestorePlan", plan)


def parse_restore_metadata(data: bytes, path: str) -> RestoreMetadata:
    return parse_record(RestoreMetadata, data, path)


def render_restore_metadata(metadata: RestoreMetadata) -> bytes:
    return render_record("HoodieRestoreMetadata", metadata)


def parse_savepoint(data: bytes, path: str) -> SavepointMetadata:
    return parse_record(SavepointMetadata, data, path)


def render_savepoint(metadata: SavepointMetadata) -> bytes:
    return render_record("HoodieSavepointMetadata", metadata)


def parse_compaction_plan(data: bytes, path: str) -> CompactionPlan:
    return parse_record(CompactionPlan, data, path)


def render_compaction_plan(plan: CompactionPlan) -> bytes:
    return render_record("HoodieCompactionPlan", plan)


def parse_requested_replace(data: bytes, path: str) -> RequestedReplace:
    """An empty file, as old writers leave it for overwrites, is an empty plan."""
    return parse_record(RequestedReplace, data, path) if data else RequestedReplace()


def render_requested_replace(plan: RequestedReplace) -> bytes:
    return render_record("HoodieRequestedReplaceMetadata", plan)
