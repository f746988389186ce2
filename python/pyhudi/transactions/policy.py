"""From options to a writer's behaviour beside other writers."""

from __future__ import annotations

from dataclasses import replace

from pyhudi.clock import Clock
from pyhudi.config import ConcurrencyMode, FailedWrites, WriteOptions
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts.comparison import STRATEGIES, Strategy
from pyhudi.transactions.heartbeat import HeartbeatPolicy
from pyhudi.transactions.times.time_sources import open_times
from pyhudi.transactions.visible import VisibilityPolicy
from pyhudi.transactions.writer import WriterPolicy


def writer_policy(options: WriteOptions, table: Table, clock: Clock) -> WriterPolicy:
    """The policy of a writer of ``table`` with these options; asks no service yet."""
    name, root = table.config.name, table.storage.root
    return WriterPolicy(
        heartbeat=HeartbeatPolicy(options.heartbeat_ms, options.heartbeat_misses),
        failed_writes=options.failed_writes or FailedWrites.EAGER,
        conflicts=strategy_of(options),
        schemas=options.schema_conflicts,
        early=options.early_conflicts,
        visibility=visibility(options),
        lock_timeout_s=options.lock.lock_wait_ms / 1000,
        times=open_times(options.time_source, options.lock, name, root, clock),
    )


def strategy_of(options: WriteOptions) -> Strategy:
    """What counts as a conflict for a writer with these options."""
    logs_pass = options.concurrency_mode is ConcurrencyMode.NON_BLOCKING
    return replace(STRATEGIES[options.conflict_rule], logs_pass=logs_pass)


def visibility(options: WriteOptions) -> VisibilityPolicy | None:
    """How long a commit waits for late listings; None if no option asks for it."""
    if not options.await_visible:
        return None
    return VisibilityPolicy(
        options.visible_first_ms, options.visible_longest_ms, options.visible_looks
    )
