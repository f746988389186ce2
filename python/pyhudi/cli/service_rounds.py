"""``pyhudi services``: a round of a table's services, or rounds until Ctrl-C."""

from __future__ import annotations

import argparse
from contextlib import suppress
from functools import partial
from typing import Any

from pyhudi.cli.arguments import add_budget, place_of
from pyhudi.cli.tables import Answer, add_table_arguments, listed
from pyhudi.listing import Listing
from pyhudi.services.rounds import USUAL, Service, ServiceTurn, run_services, watch_services


def add_rounds(commands: Any, settings: str) -> None:
    """Add the command of this module to a parser's subcommands."""
    text = "roll back failed writes, clean, and archive; with --cluster also cluster"
    rounds = commands.add_parser("services", help=text, description=text)
    rounds.add_argument("--dry-run", action="store_true", help="print what is due only")
    rounds.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        choices=[each.value for each in Service],
        help=f"one of {', '.join(each.value for each in Service)}; more than once for several",
    )
    rounds.add_argument("--cluster", action="store_true", help="put small files together as well")
    rounds.add_argument(
        "--budget", metavar="SECONDS", type=float, help="of a round; the next one goes on"
    )
    add_budget(rounds, "files", "bytes", "cpu")
    rounds.add_argument(
        "--watch",
        metavar="SECONDS",
        type=float,
        help="go on until Ctrl-C, with such a pause between rounds",
    )
    add_table_arguments(rounds, settings)
    rounds.set_defaults(command=_rounds)


def _rounds(given: argparse.Namespace) -> Answer:
    path, options, hadoop_options = place_of(given)
    cluster = [Service.CLUSTER] if given.cluster else []
    services = [*(given.only or USUAL), *cluster]
    budget = {
        "budget_s": given.budget,
        "max_files": given.max_files,
        "max_bytes": given.max_bytes,
        "max_cpu_minutes": given.max_cpu_minutes,
    }
    if given.watch is not None and not given.dry_run:
        with suppress(KeyboardInterrupt):
            watch_services(
                path,
                partial(_tell, given),
                given.watch,
                services=services,
                **budget,
                options=options,
                hadoop_options=hadoop_options,
            )
        return "Stopped.", 0
    turns = run_services(
        path,
        services=services,
        **budget,
        dry_run=given.dry_run,
        options=options,
        hadoop_options=hadoop_options,
    )
    return listed(given, turns, "")[0], 1 if any(turn.error for turn in turns) else 0


def _tell(given: argparse.Namespace, turns: Listing[ServiceTurn]) -> None:
    shown = Listing(ServiceTurn, (t for t in turns if t.done or t.left or t.error))
    print(listed(given, shown, "Nothing is due.")[0], flush=True)
