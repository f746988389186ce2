"""What a writer does after its commit is visible: notify others, and run table services.

Invariant: the commit stands whatever happens here; errors are only logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import pyarrow as pa

from pyhudi.application.commit_notice import CommitNotice, HttpCallback
from pyhudi.application.runtime import Runtime
from pyhudi.config import WriteOptions, callback_headers
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.table_config import TableType
from pyhudi.services.clustering import Clustering, Tasks
from pyhudi.services.compaction import Compaction, SliceTasks
from pyhudi.services.inline import cluster_inline, compact_inline, run_inline
from pyhudi.timeline.history import entry_of
from pyhudi.timeline.table import Table
from pyhudi.transactions.transaction import Committed

log = logging.getLogger(__name__)


class FileTasks(Tasks, SliceTasks, Protocol):
    """Where the files of both services are rewritten."""


def after_commit(
    runtime: Runtime,
    table: Table,
    options: WriteOptions,
    action: Action,
    done: Committed,
    tasks: FileTasks | None = None,
) -> None:
    """Note the commit, call the callbacks, then run and plan the table services that are due.

    ``tasks`` rewrites the files of a clustering or a compaction; without it there is none. In the
    end the thread gives back the memory that the write has left unused.
    """
    instant = Instant(done.instant, action, State.COMPLETED, done.completion_time)
    entry = entry_of(instant, done.completion_time, done.metadata, table.config.utc)
    path, name = table.storage.root, table.config.name
    runtime.last_commit.note(path, name, entry, done)
    notice = CommitNotice(path, name, entry)
    runtime.callbacks.tell(notice)
    callback = http_callback(options)
    if callback is not None:
        callback.tell(notice, done.metadata)
    try:
        if options.table_services:
            _serve(runtime, table, options, done, tasks)
    finally:
        # Arrow keeps for each thread what that once took, and each query brings threads of its own.
        pa.default_memory_pool().release_unused()


def _serve(
    runtime: Runtime,
    table: Table,
    options: WriteOptions,
    done: Committed,
    tasks: FileTasks | None,
) -> None:
    """Run and plan the table services that are due."""
    path = table.storage.root
    with _logged(done.instant):
        if runtime.services:
            runtime.services.schedule(runtime.writer(table, options), done.instant)
        if options.clean_inline or options.archive_inline:
            run_inline(runtime.writer(table, options), options)
    if tasks is None:
        return
    if compacts_inline(table, options):
        with _logged(done.instant):
            writer, place = runtime.writer(table, options), runtime.filesystem(path)
            compact_inline(Compaction(writer, options, place, tasks))
    if options.cluster_inline:
        with _logged(done.instant):
            writer, place = runtime.writer(table, options), runtime.filesystem(path)
            cluster_inline(Clustering(writer, options, place, tasks))


def compacts_inline(table: Table, options: WriteOptions) -> bool:
    """Whether a compaction, or one of logs alone, may follow a commit to ``table``."""
    asked = options.compact_inline or options.log_compact_inline
    return asked and table.config.table_type is TableType.MERGE_ON_READ


@contextmanager
def _logged(instant: InstantTime) -> Iterator[None]:
    try:
        yield
    except Exception as e:
        log.warning("%s is committed, but not all table services ran: %s", instant, e)


def http_callback(options: WriteOptions) -> HttpCallback | None:
    """The receiver of Hudi's message, if options name one."""
    if not (options.callback_on and options.callback_url):
        return None
    return HttpCallback(
        options.callback_url,
        options.callback_api_key,
        options.callback_timeout_s,
        callback_headers(options.callback_headers),
    )
