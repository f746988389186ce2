"""What the shim asks of a table before and while Spark reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyhudi.listing import Listing
from pyhudi.planner.footers import aggregate, columns_apart, files_in_bounds
from pyhudi.planner.own_reads import place_of
from pyhudi.planner.pins import PinnedQueries
from pyhudi.planner.runtime import Runtime
from pyhudi.planner.scan import Query, count_rows, describe, open_listed, partition_texts, plan_scan
from pyhudi.spark.questions import Json, Options, pinned, told
from pyhudi.storage.open import normalize_root
from pyhudi.timeline import inspection
from pyhudi.timeline.table import table_exists


class ReadHandlers:
    """Questions that change nothing."""

    QUESTIONS = (
        "exists same_tables describe decide plan_scan count aggregate partition_values inspect"
    )

    def __init__(self, runtime: Runtime, pins: PinnedQueries) -> None:
        self._runtime = runtime
        self._pins = pins

    def exists(self, path: str, **_: object) -> bool:
        return table_exists(self._runtime.storage(normalize_root(path)))

    def same_tables(self, path: str, others: Sequence[str], **_: object) -> list[bool]:
        """For each of ``others`` whether it is the place that ``path`` names."""
        here, *there = (
            place_of(self._runtime.storage(normalize_root(each))) for each in (path, *others)
        )
        return [place == here for place in there]

    def describe(
        self,
        path: str,
        options: Options,
        session: Options,
        as_of: str | None = None,
        as_of_micros: int | None = None,
        **_: object,
    ) -> Json:
        root = normalize_root(path)
        query = open_listed(self._runtime, root, options, session, as_of, as_of_micros)
        return {
            **describe(query),
            "runtime_filters": columns_apart(query),
            "travels": query.as_of is not None,
            "pin": self._pins.pin(query),
        }

    def decide(self, filters: Sequence[Json], **asked: Any) -> list[bool]:
        return self._pins.ask(pinned(**asked), lambda query: query.decided(filters))

    def plan_scan(
        self,
        filters: Sequence[Json],
        partition_filters: Sequence[Json],
        limit: int | None = None,
        runtime_filters: Sequence[Json] = (),
        **asked: Any,
    ) -> Json:
        def plan(query: Query) -> Json:
            narrowed = partial(files_in_bounds, query, runtime_filters) if runtime_filters else None
            every = [*filters, *runtime_filters]
            return plan_scan(query, every, partition_filters, limit, narrowed)

        return self._pins.ask(pinned(**asked), plan)

    def count(
        self, filters: Sequence[Json], partition_filters: Sequence[Json], **asked: Any
    ) -> int | None:
        every = [*partition_filters, *filters]
        return self._pins.ask(pinned(**asked), lambda query: count_rows(query, every))

    def aggregate(
        self,
        wanted: Sequence[Json],
        filters: Sequence[Json],
        partition_filters: Sequence[Json],
        **asked: Any,
    ) -> list[int | None] | None:
        every = [*partition_filters, *filters]
        return self._pins.ask(pinned(**asked), lambda query: aggregate(query, every, wanted))

    def partition_values(self, **asked: Any) -> list[list[str | None]]:
        return self._pins.ask(pinned(**asked), partition_texts)

    def inspect(self, path: str, listing: str, **_: object) -> Json:
        """``trips.history`` and its like, as SQL reads them."""
        table = inspection.Table.on(self._runtime.storage(normalize_root(path)))
        listings: dict[str, Callable[[], Listing[Any]]] = {
            "history": table.history, "files": table.files, "partitions": table.partitions,
        }  # fmt: skip
        return told(listings[listing]())
