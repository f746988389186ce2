"""The services that ``CALL pyhudi.system.<name>`` runs by one question of the bridge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pyhudi.application.runtime import Runtime
from pyhudi.clock import HOUR_MS
from pyhudi.config import resolve_write
from pyhudi.format.instants import InstantTime
from pyhudi.listing import Listing
from pyhudi.lock_options import LockOptions
from pyhudi.locks.base import TableLock
from pyhudi.repairs.doctor import Diagnosis, Visit
from pyhudi.repairs.patient import Wishes
from pyhudi.services.archiver import archived
from pyhudi.services.budget import Allowance, Budget
from pyhudi.services.called import CalledService, ServiceArguments
from pyhudi.services.clean import cleaned
from pyhudi.services.clustering import Clustering, clustered
from pyhudi.services.compaction import Compaction, CompactionStep, compacted, stated_step
from pyhudi.services.compaction_list import shown_compactions
from pyhudi.services.failed_writes import lazy_unless_told
from pyhudi.services.orphans import OLDER_THAN_HOURS, removed_orphans
from pyhudi.services.rounds import USUAL, RoundBudget, chosen_services, round_of
from pyhudi.spark import protocol
from pyhudi.spark.questions import Target
from pyhudi.spark.sessions import Sessions
from pyhudi.timeline.table import Table, open_table
from pyhudi.writes.cluster_stage import SparkTasks

#: what a session says of locks holds for the doctor, too
LOCKS: Final = "hoodie.write.lock."


def called_service(
    runtime: Runtime, sessions: Sessions, at: Target, ask: protocol.Serve
) -> Listing[Any]:
    """What a service other than the doctor answers; its errors are those of the service."""
    table, given = open_table(runtime.storage(at.root)), ask.arguments
    stated = {**at.given, **ask.settings}
    if ask.service is CalledService.RUN_SERVICES:
        stated = lazy_unless_told(stated, at.session)
    options = resolve_write(stated, table.config.raw, at.session)
    writer, dry_run = runtime.writer(table, options), ask.dry_run
    budget = Budget(given.max_files, given.max_bytes)
    match ask.service:
        case CalledService.ARCHIVE:
            return archived(writer, options, dry_run, given.max_instants)
        case CalledService.CLEAN:
            return cleaned(writer, options, dry_run, budget)
        case CalledService.REMOVE_ORPHANS:
            return removed_orphans(writer, _older_than_hours(given), dry_run, budget)
        case CalledService.SHOW_COMPACTION:
            return shown_compactions(writer)
    tasks = SparkTasks(runtime, sessions.asking(), table)
    if ask.service is CalledService.RUN_SERVICES:
        services = chosen_services(_names(given.services) or USUAL)
        most = RoundBudget(given.budget_s, given.max_cpu_minutes, budget)
        return round_of(writer, options, services, most, dry_run, runtime.filesystem, tasks)
    place = runtime.filesystem(table.storage.root)
    if ask.service is CalledService.RUN_COMPACTION:
        step = CompactionStep.SCHEDULE_AND_RUN if given.op is None else stated_step(given.op)
        instants = frozenset(map(InstantTime, _names(given.instants)))
        return compacted(Compaction(writer, options, place, tasks, budget, instants), step, dry_run)
    allowance = Allowance(writer.clock, None, given.max_cpu_minutes)
    run = Clustering(writer, options, place, tasks, allowance, budget=budget)
    return clustered(run, dry_run)


def called_doctor(runtime: Runtime, at: Target, ask: protocol.Serve) -> Listing[Diagnosis]:
    """What ``CALL pyhudi.system.doctor`` answers: the table may be one that does not open."""
    given = ask.arguments
    locks = {key: text for key, text in at.session.items() if key.startswith(LOCKS)}
    options = {**locks, **at.given, **ask.settings}
    older_than_ms = int(_older_than_hours(given) * HOUR_MS)
    wishes = Wishes(bool(given.read_files), bool(given.forget_lost), older_than_ms, options)

    def lock(said: LockOptions, table: Table) -> TableLock:
        resolved = resolve_write(options, table.config.raw, {})
        return runtime.lock(table, replace(resolved, lock=said))

    return Visit(runtime.storage(at.root), runtime.clock, lock, wishes).diagnoses(ask.dry_run)


def _names(given: str | None) -> list[str]:
    """The parts of a text between commas."""
    return [name.strip() for name in (given or "").split(",") if name.strip()]


def _older_than_hours(given: ServiceArguments) -> float:
    return OLDER_THAN_HOURS if given.older_than_hours is None else given.older_than_hours
