"""What all questions of the shim have in common: their table, and its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyhudi.application.batches import MicroBatch
from pyhudi.catalogs.hudi_entry import EntryName
from pyhudi.listing import Listing
from pyhudi.option_names import refuse_near_properties, refuse_unknown_write
from pyhudi.reads.pins import Pinned
from pyhudi.spark.protocol import Place, Scan, Told
from pyhudi.storage.open import normalize_root

Options = Mapping[str, str]

COMMIT_PREFIX = "hoodie.datasource.write.commitmeta.key.prefix"
PARTITION_FIELD = "hoodie.datasource.write.partitionpath.field"
#: keys of a catalog entry that only Spark uses
CATALOG_KEYS = frozenset(
    {"path", "provider", "location", "owner", "comment", "external", "option.serialization.format"}
)


@dataclass(frozen=True, slots=True)
class Target:
    """The `Place` of a question in the planner's terms.

    ``given`` has the options of the statement: its own first, then the table's TBLPROPERTIES.
    """

    path: str
    root: str
    given: Options
    options: Options
    properties: Options
    session: Options
    entry: EntryName | None
    batch: MicroBatch | None = None

    @classmethod
    def at(cls, place: Place) -> Target:
        """``ConfigError`` for a path that cannot be a table's."""
        given = given_options(place.properties, place.options)
        return cls(
            place.path,
            normalize_root(place.path),
            given,
            place.options,
            place.properties,
            place.session,
            place.entry,
            place.batch,
        )

    def pinned(self, pin: str, instant: str | None) -> Pinned:
        """A state of the table that was described with these options."""
        return Pinned(pin, self.root, self.options, self.session, instant)


def scanned(scan: Scan, session: Options) -> Pinned:
    """The state of the table that a statement has read by ``scan``."""
    return Pinned(scan.pin, normalize_root(scan.path), scan.options, session, scan.instant)


def hudi_properties(properties: Options) -> dict[str, str]:
    """The TBLPROPERTIES that are options, without Spark's own."""
    return {
        key.removeprefix("option."): value
        for key, value in properties.items()
        if key not in CATALOG_KEYS and not key.startswith("spark.")
    }


def commit_prefix(given: Options) -> str:
    """What the names of options begin with that go to the commit's metadata."""
    return next((given[key] for key in given if key.lower() == COMMIT_PREFIX), "_")


def check_property_names(properties: Options, options: Options) -> None:
    """``ConfigError`` for a name that means nothing, or is nearly an option's in TBLPROPERTIES.

    Spark repeats the ``options`` of a statement among the properties.
    """
    refuse_unknown_write(options, commit_prefix({**properties, **options}))
    refuse_near_properties(key for key in hudi_properties(properties) if key not in options)


def given_options(properties: Options, options: Options) -> dict[str, str]:
    """The options of a statement: its own win over the TBLPROPERTIES of its table."""
    return {**hudi_properties(properties), **options}


def with_partitioning(options: Options, columns: Sequence[str]) -> dict[str, str]:
    """Options with the columns of ``partitionBy``, unless an option names them."""
    given = dict(options)
    named = any(key.lower() in (PARTITION_FIELD, "hoodie.table.partition.fields") for key in given)
    if columns and not named:
        given[PARTITION_FIELD] = ",".join(columns)
    return given


def told(found: Listing[Any]) -> Told:
    """A list in the form from which the shim makes rows."""
    return Told(found.ddl(), tuple(tuple(row) for row in found.rows()))
