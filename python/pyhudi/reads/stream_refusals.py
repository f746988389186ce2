"""What no stream can have, and what a stream cannot have any more: its errors."""

from __future__ import annotations

from typing import Final

from pyhudi.choices import ChangeForm, Order
from pyhudi.config import QueryType, ReadOptions
from pyhudi.errors import ConfigError, HistoryExpired, UnsupportedTable
from pyhudi.format.instants import InstantTime
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import TableType
from pyhudi.reads.dropped_columns import refuse_dropped_columns
from pyhudi.reads.stream_look import StreamLook
from pyhudi.reads.stream_offsets import StreamOffset, just_before
from pyhudi.services.slice_merging import unmergeable
from pyhudi.timeline.tail import ARCHIVED_TIMES

START: Final = "hoodie.datasource.streaming.startOffset"


def archived_away(found: StreamLook, start: StreamOffset) -> HistoryExpired:
    """The error of a stream of each change, of which some are archived."""
    archived = ARCHIVED_TIMES.newest(found.table, found.order)
    earliest = archived or found.newest
    return HistoryExpired(
        f"The stream has read the table {found.table.config.name} up to {start.at or 'nothing'}, "
        f"and the commits after that up to {archived} have been archived, so what each of them did "
        "is not known any more. The earliest place from which changes can be read is "
        f"{_begin_at(earliest)} keep more commits (hoodie.keep.min.commits) for one that pauses.",
        asked=start.at,
        earliest=earliest,
    )


def cleaned_away(
    found: StreamLook, start: StreamOffset, lost: str, earliest: InstantTime | None
) -> HistoryExpired:
    """The error of a stream of each change that needs the file ``lost``."""
    return HistoryExpired(
        f"The changes after {start.at} of the table {found.table.config.name} need {lost}, which a "
        "clean has deleted while the stream did not run. The earliest place from which changes "
        f"can be read is {_begin_at(earliest)} keep more commits (hoodie.clean.commits.retained) "
        "for one that pauses.",
        asked=start.at,
        earliest=earliest,
    )


def _begin_at(earliest: InstantTime | None) -> str:
    return (
        f"{earliest}: start the query with another checkpoint location and {START}={earliest}, or "
        "earliest to begin with the rows of now. A stream that runs keeps what it has not read;"
    )


def state_gone(found: StreamLook, place: StreamOffset) -> HistoryExpired:
    """The error of a stream that has read a part of a state which is gone."""
    return HistoryExpired(
        f"The stream has read a part of the table {found.table.config.name} as of {place.at}, and "
        "files of that state have been deleted since: a clean ran while the query did not. Start "
        "it with another checkpoint location, which begins with the rows of now; the earliest "
        f"that can be read is {found.newest}.",
        asked=place.at,
        earliest=found.newest,
    )


def check_known(found: StreamLook, place: StreamOffset) -> None:
    """``HistoryExpired`` if the table no longer has a commit that a stream has read.

    That is its last one or one of ``RECENT`` before it: commits may end in another order than they
    began, and a rollback may undo any. Only an undoing takes a commit away without archiving it,
    or another table at the same place.
    """
    undone = found.undone(place)
    if undone is None:
        _check_missed(found, place)
        return
    which = "" if undone == place.commit else f", and before it commit {undone}"
    raise HistoryExpired(
        f"The stream has read the table {found.table.config.name} up to commit {place.commit}"
        f"{which}, which is neither on its timeline nor in its archive any more: a restore or a "
        "rollback has undone the commit, or the table was dropped and created again, or its "
        "archive is lost. Nothing more was read; what the query wrote of it before is still where "
        "it wrote it. Take that away if it must not stay, and start the query with another "
        f"checkpoint location, which begins with the rows of now; {START} can name another begin.",
        asked=undone,
        earliest=found.newest,
    )


def _check_missed(found: StreamLook, place: StreamOffset) -> None:
    """``HistoryExpired`` if a commit came below the place: no batch would ever have it."""
    late = found.missed(place)
    if late is None:
        return
    at = found.key(late)
    raise HistoryExpired(
        f"Commit {late.time} of {found.table.config.name} counts from {at} on, but this stream had "
        f"read the table up to {place.at} before that commit was there: the clock of its writer is "
        "behind those of other writers, so no batch would have its rows. Nothing more was read. "
        "Let the clocks of all writers agree. Then start the query with another checkpoint "
        f"location and {START}={just_before(at)}, which gives that commit and all after it.",
        asked=late.time,
        earliest=just_before(at),
    )


def refuse_hidden(own: SparkSchema, asked: SparkSchema) -> None:
    """``ConfigError`` for hidden columns, which the images of changes lack."""
    hidden = [name for name in asked.names if name not in own.names]
    if hidden:
        key = "hoodie.datasource.streaming.appendsOnly"
        raise ConfigError(
            f"The query asks for the hidden column {hidden[0]}, and with '{key}' some batches come "
            "from change data, which has the table's own columns only. Leave the column or the "
            "option out.",
            key=key,
        )


def check_options(options: ReadOptions) -> None:
    """``ConfigError`` for options that a stream does not have, or cannot have together."""
    kind = "hoodie.datasource.query.type"
    ranged = {
        "hoodie.datasource.read.begin.instanttime": options.begin,
        "hoodie.datasource.read.end.instanttime": options.end,
        "as.of.instant": options.as_of,
        "hoodie.datasource.read.incr.fallback.fulltablescan.enable": options.of_the_rest or None,
        "hoodie.datasource.read.schema.use.end.instanttime": options.end_schema or None,
    }
    for key, given in ranged.items():
        if given is not None:
            raise ConfigError(
                f"'{key}' is an option of one read, and a stream follows the table from its place "
                f"on. Leave it out; {START} says where a new stream begins.",
                key=key,
            )
    if options.saves:
        key = "hoodie.datasource.read.savepoint.enable"
        raise ConfigError(
            f"'{key}' keeps one state of the table, and a stream reads all that is written after "
            "its place. Leave it out; let pyhudi clean and archive the table, which keep what a "
            "stream has not read, or give Apache Hudi's services a longer retention.",
            key=key,
        )
    if options.query_type is QueryType.READ_OPTIMIZED:
        raise ConfigError(
            f"{kind} is 'read_optimized', and a stream cannot tell from base files alone when a "
            "row changed. Leave it out.",
            key=kind,
        )
    form = options.change_form
    if form is not ChangeForm.LATEST_STATE and options.query_type is not QueryType.INCREMENTAL:
        raise ConfigError(
            f"hoodie.datasource.query.incremental.format is '{form.value}', but {kind} is "
            f"'{options.query_type.value}', so nothing of it counts. Set {kind} to 'incremental' "
            "as well.",
            key=kind,
        )
    if options.order is Order.REQUESTED:
        key = "hoodie.datasource.read.incr.order"
        raise ConfigError(
            f"{key} is 'requested', by which a stream would miss commits that end late. Leave it "
            "out, or set it to 'fenced' or 'completed'.",
            key=key,
        )
    if options.appends_only and form is not ChangeForm.LATEST_STATE:
        key = "hoodie.datasource.streaming.appendsOnly"
        raise ConfigError(
            f"'{key}' gives rows, and hoodie.datasource.query.incremental.format is "
            f"'{form.value}', which gives changes with their images. Choose one of "
            "them.",
            key=key,
        )


def refuse_table(found: StreamLook) -> None:
    """``UnsupportedTable`` for a table that no stream can read."""
    config = found.table.config
    refuse_dropped_columns(config)
    feature = None
    if not config.populate_meta_fields:
        feature = "streams of tables without meta fields"
    elif config.table_type is TableType.MERGE_ON_READ:
        unknown = unmergeable(config)
        feature = f"streams of {unknown}" if unknown is not None else None
    if feature is not None:
        raise UnsupportedTable(
            f"The table {config.name} at {found.table.storage.root} cannot be read as a stream: "
            f"{feature} are not supported. Read it by batches, or with Apache Hudi.",
            feature=feature,
        )
