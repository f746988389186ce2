"""The shim's questions about a table before and while Spark reads it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pyhudi.application.runtime import Runtime
from pyhudi.config import resolve_write
from pyhudi.diagnosis.advise import table_advice
from pyhudi.diagnosis.health import table_health
from pyhudi.diagnosis.why import key_touches
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.listing import Listing, ListingName
from pyhudi.reads.change_data import ChangePlan, change_schema, plan_changes
from pyhudi.reads.filters import or_null
from pyhudi.reads.footers import aggregate, columns_apart, slices_in_bounds
from pyhudi.reads.lease_keeper import LeaseKeeper
from pyhudi.reads.log_slices import LogRowsPlan, plan_log_rows
from pyhudi.reads.logged_rows import LoggedPlan, plan_logged_rows, reads_logs
from pyhudi.reads.pins import PinnedQueries
from pyhudi.reads.scan import (
    PartitionTexts,
    Query,
    count_rows,
    describe,
    open_listed,
    partition_texts,
)
from pyhudi.reads.scan_plan import ScanPlan, plan_scan
from pyhudi.spark import protocol
from pyhudi.spark.block_rows import block_file
from pyhudi.spark.change_rows import change_rows, log_rows, logged_rows, merging
from pyhudi.spark.questions import Target, told
from pyhudi.spark.sessions import JavaObject, Sessions
from pyhudi.storage.open import normalize_root
from pyhudi.timeline import inspection
from pyhudi.timeline.table import open_table, table_exists
from pyhudi.transactions.writer import Writer
from pyhudi.writes.own_reads import place_of


class ReadHandlers:
    """Questions that change nothing."""

    QUESTIONS = (
        "exists same_tables describe decide plan_scan read_changes count aggregate "
        "partition_values inspect why"
    )

    def __init__(self, sessions: Sessions, runtime: Runtime, pins: PinnedQueries) -> None:
        self._sessions = sessions
        self._runtime = runtime
        self._pins = pins
        self._leases = LeaseKeeper(runtime)
        self._merged = merging(sessions, runtime)

    def close(self) -> None:
        """End the leases of queries."""
        self._leases.close()

    def exists(self, at: Target, ask: protocol.Nothing) -> bool:
        return table_exists(self._runtime.storage(at.root))

    def same_tables(self, at: Target, ask: protocol.SameTables) -> list[bool]:
        roots = (at.root, *(normalize_root(other) for other in ask.others))
        here, *there = (place_of(self._runtime.storage(root)) for root in roots)
        return [place == here for place in there]

    def describe(self, at: Target, ask: protocol.Describe) -> protocol.Described:
        query = open_listed(
            self._runtime, at.root, at.options, at.session, ask.as_of, ask.as_of_micros
        )
        found = describe(query)
        changes = query.of_changes
        return protocol.Described(
            schema=(change_schema(query) if changes else found.schema).json(),
            partitioning=() if changes else found.partitioning,
            partition_columns=() if changes else found.partition_columns,
            properties=found.properties,
            instant=found.instant,
            meta_fields=found.meta_fields,
            runtime_filters=() if changes else tuple(columns_apart(query)),
            travels=query.as_of is not None,
            rows=found.rows,
            logged=reads_logs(query),
            changes=changes,
            follows=query.options.follows,
            pin=self._pins.pin(query),
        )

    def decide(self, at: Target, ask: protocol.Decide) -> list[bool]:
        pinned = at.pinned(ask.pin, ask.instant)
        return self._pins.ask(pinned, lambda query: query.decided(ask.filters))

    def plan_scan(self, at: Target, ask: protocol.PlanScan) -> ScanPlan:
        def plan(query: Query) -> ScanPlan:
            runtime = [or_null(each) for each in ask.runtime_filters]
            narrowed = partial(slices_in_bounds, query, runtime) if runtime else None
            every = [*ask.filters, *runtime]
            taken = ask.partition_filters
            return plan_scan(query, every, taken, ask.limit, narrowed, self._merged, ask.homes)

        def noted(query: Query) -> ScanPlan:
            self._note(at, ask.pin, query)
            return plan(query)

        return self._pins.ask(at.pinned(ask.pin, ask.instant), noted)

    def read_changes(self, holder: JavaObject, at: Target, ask: protocol.ReadChanges) -> str | None:
        """Gives the ``HudiChangeRows`` that asks its DataFrame, or the name of a file of blocks."""
        wanted = SparkSchema.parse(ask.schema)

        def plan(query: Query) -> ChangePlan | LoggedPlan | LogRowsPlan:
            self._note(at, ask.pin, query)
            if query.of_changes:
                return plan_changes(query, wanted, ask.filters)
            taken = ask.partition_filters
            if query.merges_logs:
                slices = query.slices([*taken, *ask.filters])
                homes = dict(ask.homes)
                return plan_log_rows(query, slices, wanted, self._merged, homes, ask.filters)
            return plan_logged_rows(query, wanted, ask.filters, taken)

        found = self._pins.ask(at.pinned(ask.pin, ask.instant), plan)
        spark = self._sessions.asking()
        if isinstance(found, ChangePlan):
            holder.take(change_rows(spark, found, wanted)._jdf)
        elif isinstance(found, LogRowsPlan):
            parallelism = spark.sparkContext.defaultParallelism
            blocks = block_file(found, parallelism) if ask.decodes else None
            if blocks is not None:
                return blocks
            holder.take(log_rows(spark, found, wanted)._jdf)
        else:
            holder.take(logged_rows(spark, found, wanted)._jdf)
        return None

    def _note(self, at: Target, pin: str, query: Query) -> None:
        def writer() -> Writer:
            options = resolve_write(at.given, query.table.config.raw, at.session)
            return self._runtime.writer(query.table, options)

        self._leases.note(pin, query, writer if query.options.saves else None)

    def count(self, at: Target, ask: protocol.Count) -> int | None:
        every = [*ask.partition_filters, *ask.filters]
        pinned = at.pinned(ask.pin, ask.instant)
        return self._pins.ask(pinned, lambda query: count_rows(query, every, self._merged))

    def aggregate(self, at: Target, ask: protocol.Aggregate) -> list[int | None] | None:
        every = [*ask.partition_filters, *ask.filters]
        pinned = at.pinned(ask.pin, ask.instant)
        return self._pins.ask(pinned, lambda query: aggregate(query, every, ask.wanted))

    def partition_values(self, at: Target, ask: protocol.AtPin) -> list[PartitionTexts]:
        return self._pins.ask(at.pinned(ask.pin, ask.instant), partition_texts)

    def inspect(self, at: Target, ask: protocol.Inspect) -> protocol.Told:
        if ask.listing is ListingName.HEALTH:
            return self._health(at)
        if ask.listing is ListingName.ADVICE:
            return self._advice(at)
        table = inspection.InspectedTable.on(self._runtime.storage(at.root))
        listings: dict[ListingName, Callable[[], Listing[Any]]] = {
            ListingName.HISTORY: table.history,
            ListingName.FILES: table.files,
            ListingName.PARTITIONS: table.partitions,
        }
        return told(listings[ask.listing]())

    def _health(self, at: Target) -> protocol.Told:
        runtime = self._runtime
        table = open_table(runtime.storage(at.root))
        found = table_health(table, runtime.filesystem, runtime.clock, at.given, at.session)
        return told(found)

    def _advice(self, at: Target) -> protocol.Told:
        runtime = self._runtime
        table = open_table(runtime.storage(at.root))
        return told(table_advice(table, runtime.filesystem, at.given, at.session))

    def why(self, at: Target, ask: protocol.Why) -> protocol.Told:
        """``CALL pyhudi.system.why``: every commit and file that touched a record key."""
        table = open_table(self._runtime.storage(at.root))
        files = self._runtime.filesystem
        return told(key_touches(table, files, ask.key, ask.partition, ask.carried))
