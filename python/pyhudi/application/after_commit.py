"""What a writer does after its commit is visible: notify others, and run table services.

Invariant: the commit stands whatever happens here; errors are only logged.
"""

from __future__ import annotations

import logging

from pyhudi.application.commit_notice import CommitNotice, HttpCallback
from pyhudi.application.runtime import Runtime
from pyhudi.config import WriteOptions, callback_headers
from pyhudi.format.instants import Action, Instant, State
from pyhudi.services.archiver import archive_table, rules_of
from pyhudi.services.clean import clean_table, is_due, retention_of
from pyhudi.timeline.history import entry_of
from pyhudi.timeline.table import Table
from pyhudi.transactions.transaction import Committed
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)


def after_commit(
    runtime: Runtime, table: Table, options: WriteOptions, action: Action, done: Committed
) -> None:
    """Note the commit, call the callbacks, then ask the planners of table services, if any."""
    instant = Instant(done.instant, action, State.COMPLETED, done.completion_time)
    entry = entry_of(instant, done.completion_time, done.metadata, table.config.utc)
    path, name = table.storage.root, table.config.name
    runtime.last_commit.note(path, name, entry, done)
    notice = CommitNotice(path, name, entry)
    runtime.callbacks.tell(notice)
    callback = http_callback(options)
    if callback is not None:
        callback.tell(notice, done.metadata)
    if not options.table_services:
        return
    try:
        if runtime.services:
            runtime.services.schedule(runtime.writer(table, options), done.instant)
        if options.clean_inline:
            _clean(runtime.writer(table, options), options)
        if options.archive_inline:
            _archive(runtime.writer(table, options), options)
    except Exception as e:
        log.warning("%s is committed, but not all table services ran: %s", done.instant, e)


def _clean(writer: Writer, options: WriteOptions) -> None:
    """Clean the table, if enough commits have come since the last clean."""
    timeline = writer.table.timeline()
    if is_due(timeline, options.clean_trigger):
        clean_table(writer, retention_of(options), timeline, incremental=True)


def _archive(writer: Writer, options: WriteOptions) -> None:
    """Archive old instants, if the timeline has more commits than may stay."""
    archive_table(writer, rules_of(options))


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
