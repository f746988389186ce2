"""What questions of the shim have in common: options, pins and lists, between JSON and Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyhudi.listing import Listing
from pyhudi.planner.pins import Pinned
from pyhudi.storage.open import normalize_root

Options = Mapping[str, str]
Json = dict[str, Any]

PARTITION_FIELD = "hoodie.datasource.write.partitionpath.field"
#: keys of a catalog entry that are Spark's own business
CATALOG_KEYS = frozenset(
    {"path", "provider", "location", "owner", "comment", "external", "option.serialization.format"}
)


def hudi_properties(properties: Options) -> dict[str, str]:
    """TBLPROPERTIES that are options: what Spark keeps for itself is left out."""
    return {
        key.removeprefix("option."): value
        for key, value in properties.items()
        if key not in CATALOG_KEYS and not key.startswith("spark.")
    }


def given_options(properties: Options | None, options: Options) -> dict[str, str]:
    """What a statement is given: its options before the TBLPROPERTIES of its table."""
    return {**hudi_properties(properties or {}), **options}


def with_partitioning(options: Options, columns: Sequence[str]) -> dict[str, str]:
    """Options with the columns of ``partitionBy``, where no option names them."""
    given = dict(options)
    named = any(key.lower() in (PARTITION_FIELD, "hoodie.table.partition.fields") for key in given)
    if columns and not named:
        given[PARTITION_FIELD] = ",".join(columns)
    return given


def pinned(
    pin: str,
    path: str,
    options: Options,
    session: Options,
    instant: str | None,
    **_: object,
) -> Pinned:
    return Pinned(pin, normalize_root(path), options, session, instant)


def told(found: Listing[Any]) -> Json:
    """A list as the shim makes rows of it."""
    return {"columns": found.ddl(), "rows": found.rows()}
