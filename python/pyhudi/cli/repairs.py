"""The commands that repair a table: each prints a plan unless it is told to run."""

from __future__ import annotations

import argparse
from typing import Any

from pyhudi.cli.arguments import add_budget, place_of
from pyhudi.cli.tables import Answer, add_table_arguments, listed
from pyhudi.repairs.doctor import Treatment, doctor
from pyhudi.services.bin import bins, put_back
from pyhudi.services.orphans import OLDER_THAN_HOURS, remove_orphans


def add_repairs(commands: Any, settings: str) -> None:
    """Add the commands of this module to a parser's subcommands."""
    text = "move data files that belong to no commit into the table's bin"
    lost = commands.add_parser("orphans", help=text, description=text)
    lost.add_argument(
        "--older-than",
        metavar="HOURS",
        type=float,
        default=OLDER_THAN_HOURS,
        help=f"younger files stay; {OLDER_THAN_HOURS:g} if not set",
    )
    lost.add_argument("--run", action="store_true", help="move them; without it print them only")
    add_budget(lost, "files", "bytes")
    add_table_arguments(lost, settings)
    lost.set_defaults(command=_orphans)

    text = "print what is wrong with a table, and repair it if told to"
    sick = commands.add_parser("doctor", help=text, description=text)
    sick.add_argument("--run", action="store_true", help="repair it; without it only print")
    sick.add_argument("--read-files", action="store_true", help="look into the data files, too")
    sick.add_argument(
        "--forget-lost",
        action="store_true",
        help="let commits forget data files that are gone for good, with their rows",
    )
    sick.add_argument(
        "--older-than",
        metavar="HOURS",
        type=float,
        default=OLDER_THAN_HOURS,
        help=f"younger leftovers stay; {OLDER_THAN_HOURS:g} if not set",
    )
    add_table_arguments(sick, settings)
    sick.set_defaults(command=_doctor)

    text = "print what repairs have put into the bin, or put it back"
    held = commands.add_parser("bin", help=text, description=text)
    add_table_arguments(held, settings)
    held.add_argument("name", nargs="?", metavar="NAME", help="the bin to put back")
    held.set_defaults(command=_bin)


def _orphans(given: argparse.Namespace) -> Answer:
    path, options, hadoop_options = place_of(given)
    found = remove_orphans(
        path,
        older_than_hours=given.older_than,
        dry_run=not given.run,
        max_files=given.max_files,
        max_bytes=given.max_bytes,
        options=options,
        hadoop_options=hadoop_options,
    )
    return listed(given, found, f"Each data file of the table at {path} belongs to a commit.")


def _doctor(given: argparse.Namespace) -> Answer:
    path, options, hadoop_options = place_of(given)
    found = doctor(
        path,
        dry_run=not given.run,
        read_files=given.read_files,
        forget_lost=given.forget_lost,
        older_than_hours=given.older_than,
        options=options,
        hadoop_options=hadoop_options,
    )
    text, _ = listed(given, found, f"The doctor finds nothing wrong with the table at {path}.")
    fine = (Treatment.REPAIRED, Treatment.UNJUDGED)
    return text, int(any(each.treatment not in fine for each in found))


def _bin(given: argparse.Namespace) -> Answer:
    path, options, hadoop_options = place_of(given)
    if given.name is None:
        held = bins(path, options=options, hadoop_options=hadoop_options)
        return listed(given, held, f"The bin of the table at {path} is empty.")
    back = put_back(path, given.name, options=options, hadoop_options=hadoop_options)
    return listed(given, back, "")
