"""The commands that look at one table: each prints a list, or the same as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from pyhudi.cli.arguments import OPTIONS, STORAGE, path_of, place_of, settings_of
from pyhudi.cli.table_text import history_text
from pyhudi.diagnosis.advise import advise
from pyhudi.diagnosis.health import health
from pyhudi.diagnosis.why import why
from pyhudi.format.schemas import type_text
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.listing import Listing, shown_cell
from pyhudi.text_table import table_text
from pyhudi.timeline.checkup import Severity
from pyhudi.timeline.inspection import InspectedTable

#: a command's text, and the exit status
Answer = tuple[str, int]
Command = Callable[[argparse.Namespace], Answer]


def add_commands(commands: Any) -> None:
    """Add the commands of this module to a parser's subcommands."""
    _add(commands, "show", "print what a table is, and how large", _show)
    for name, text, command in (
        ("files", "print the base files that a query reads", _files),
        ("partitions", "print the partitions, with their files, rows and bytes", _partitions),
        ("schema", "print the columns and their types", _schema),
    ):
        made = _add(commands, name, text, command)
        made.add_argument("--as-of", metavar="TIME", help="an instant or a time, not the newest")
    log = _add(commands, "history", "print what has happened to a table", _history)
    log.add_argument("--archived", action="store_true", help="include archived instants")
    _add(commands, "commits", "print the completed commits, oldest first", _commits)
    one = _add(commands, "commit", "print what one commit wrote", _commit)
    one.add_argument("instant", nargs="?", metavar="INSTANT", help="the last one by default")
    check = _add(commands, "check", "look for lost files, broken commits, pending writes", _check)
    check.add_argument("--read-files", action="store_true", help="read each file of the snapshot")
    diff = _add(commands, "diff", "print the partitions that differ between two states", _diff)
    diff.add_argument("before", metavar="BEFORE", help="an instant or a time")
    diff.add_argument("after", nargs="?", metavar="AFTER", help="the newest state by default")
    key = _add(commands, "why", "print every commit and file that touched a record key", _why)
    key.add_argument("key", metavar="KEY", help="as in _hoodie_record_key: 7, or id:1,ts:2")
    key.add_argument("--partition", metavar="PATH", help="look only into this partition")
    key.add_argument("--carried", action="store_true", help="include slices that only copied it")
    name = "health"
    text = "print how healthy a table is, and what mends it"
    writers = "an fs.s3a.* setting, or a hoodie.* option of the writers"
    _add(commands, name, text, _health, writers)
    text = "print which file size, index, buckets, order or partitions would suit a table better"
    _add(commands, "advise", text, _advise, writers)


def add_table_arguments(parser: argparse.ArgumentParser, settings: str) -> None:
    """The arguments that all commands about a table have."""
    parser.add_argument("path", metavar="PATH", help="the table's folder, local or s3a://")
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help=settings)


def json_text(value: object) -> str:
    """``value`` as JSON, indented."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _add(
    commands: Any, name: str, text: str, command: Command, settings: str = "an fs.s3a.* setting"
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    add_table_arguments(parser, settings)
    parser.set_defaults(command=command)
    return parser


def _table(given: argparse.Namespace) -> InspectedTable:
    settings = settings_of(given.conf, STORAGE)
    return InspectedTable(path_of(given.path), hadoop_options=settings)


def listed(given: argparse.Namespace, found: Listing[Any], without: str) -> Answer:
    """A list as a table, as JSON, or the sentence ``without`` where it is empty."""
    if given.json:
        return json_text(found.records()), 0
    if not found:
        return without, 0
    rows = [[shown_cell(value) for value in row] for row in found.rows()]
    return table_text(found.columns, rows), 0


def _show(given: argparse.Namespace) -> Answer:
    table = _table(given)
    if not given.json:
        return repr(table), 0
    config, partitions, commits = table.config, table.partitions(), table.commits()
    rows = [each.rows for each in partitions]
    facts = {
        "path": table.path,
        "name": config.name,
        "type": config.table_type.value,
        "version": config.version,
        "record_key_fields": list(config.record_key_fields),
        "partition_fields": list(config.partition_fields),
        "ordering_fields": list(config.ordering_fields),
        "last_commit": commits[-1].instant if commits else None,
        "partitions": len(partitions),
        "files": sum(each.files for each in partitions),
        "size_bytes": sum(each.size_bytes for each in partitions),
        "rows": None if None in rows else sum(each or 0 for each in rows),
    }
    return json_text(facts), 0


def _files(given: argparse.Namespace) -> Answer:
    table = _table(given)
    return listed(given, table.files(given.as_of), _empty(table))


def _partitions(given: argparse.Namespace) -> Answer:
    table = _table(given)
    return listed(given, table.partitions(given.as_of), _empty(table))


def _schema(given: argparse.Namespace) -> Answer:
    found = SparkSchema.of_arrow(_table(given).schema(given.as_of))
    if given.json:
        return json_text(found.json()), 0
    rows = [
        (column.name, type_text(column.type), "" if column.nullable else "not null")
        for column in found.columns
    ]
    return table_text(("column", "type", ""), rows), 0


def _history(given: argparse.Namespace) -> Answer:
    table = _table(given)
    return _entries(given, table.history(given.archived), table)


def _commits(given: argparse.Namespace) -> Answer:
    table = _table(given)
    return _entries(given, table.commits(), table)


def _entries(given: argparse.Namespace, found: Listing[Any], table: InspectedTable) -> Answer:
    if found and not given.json:
        return history_text(found), 0
    return listed(given, found, _empty(table))


def _commit(given: argparse.Namespace) -> Answer:
    commit = _table(given).commit(given.instant)
    entry = Listing(type(commit.entry), [commit.entry])
    if given.json:
        parts = {
            "commit": entry.records()[0],
            "files": commit.files.records(),
            "metadata": dict(commit.metadata),
        }
        return json_text(parts), 0
    files, _ = listed(given, commit.files, "It wrote no file.")
    return f"{history_text(entry)}\n\n{files}", 0


def _check(given: argparse.Namespace) -> Answer:
    table = _table(given)
    found = table.check(given.read_files)
    text, _ = listed(given, found, f"The table at {table.path} is whole, and nothing is pending.")
    return text, int(any(each.severity is Severity.ERROR for each in found))


def _diff(given: argparse.Namespace) -> Answer:
    found = _table(given).diff(given.before, given.after)
    return listed(given, found, "The two states have the same files.")


def _why(given: argparse.Namespace) -> Answer:
    found = why(
        path_of(given.path),
        given.key,
        partition=given.partition,
        carried=given.carried,
        hadoop_options=settings_of(given.conf, STORAGE),
    )
    return listed(given, found, "")


def _advise(given: argparse.Namespace) -> Answer:
    path, options, hadoop_options = place_of(given)
    found = advise(path, options=options, hadoop_options=hadoop_options)
    return listed(given, found, f"There is nothing to advise for the table at {path}.")


def _health(given: argparse.Namespace) -> Answer:
    settings = settings_of(given.conf, STORAGE, OPTIONS)
    found = health(
        path_of(given.path),
        options={key: text for key, text in settings.items() if key.startswith(OPTIONS)},
        hadoop_options={key: text for key, text in settings.items() if key.startswith(STORAGE)},
    )
    return listed(given, found, "")


def _empty(table: InspectedTable) -> str:
    return f"Nothing has been written to the table at {table.path} yet."
