"""Options of other formats that would change the rows of a write or a read.

To ignore them would cost rows: Delta's ``replaceWhere`` replaces a part of the table, but mode
overwrite without it replaces all. Only options of writes and reads are checked. Users may keep
notes of their own in the properties of tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pyhudi.errors import ConfigError

_REPLACE: Final = (
    "To replace whole partitions use mode overwrite with the option partitionOverwriteMode=dynamic,"
    " or df.writeTo(table).overwrite(condition)"
)
_COLUMNS: Final = "To change columns use ALTER TABLE, or write to a new table"
_ONCE: Final = "Look for the commit before you write again"
_BRANCH: Final = "A Hudi table has no branches: use a separate table"
_JUDGED: Final = "hoodie.write.concurrency.mode says how the writers of a table share it"

#: letters of the option -> the one value that pyhudi supports, and what to do instead
_FOREIGN: Final[Mapping[str, tuple[str | None, str]]] = {
    # Delta
    "replacewhere": (None, _REPLACE),
    "replaceon": (None, _REPLACE),
    "replaceusing": (None, _REPLACE),
    "overwriteschema": ("false", _COLUMNS),
    "mergeschema": ("true", _COLUMNS),
    "txnappid": (None, _ONCE),
    "txnversion": (None, _ONCE),
    # Iceberg
    "overwritemode": (None, _REPLACE),
    "dynamicpartitionoverwrite": (None, _REPLACE),  # Paimon
    "branch": ("main", _BRANCH),
    "isolationlevel": (None, _JUDGED),
    "validatefromsnapshotid": (None, _JUDGED),
}


_CHANGES: Final = "To follow what was committed use pyhudi.commits"
_FILES: Final = "A read takes a table's files whatever their names and times: filter the rows"
_LOST: Final = "A lost or broken file of a table is an error, never fewer rows"
_FOREIGN_READS: Final[Mapping[str, tuple[str | None, str]]] = {
    # Delta
    "readchangefeed": ("false", _CHANGES),
    "readchangedata": ("false", _CHANGES),
    "startingversion": (None, _CHANGES),
    "startingtimestamp": (None, _CHANGES),
    "endingversion": (None, _CHANGES),
    "endingtimestamp": (None, _CHANGES),
    # Iceberg
    "startsnapshotid": (None, _CHANGES),
    "endsnapshotid": (None, _CHANGES),
    "branch": ("main", _BRANCH),
    "tag": (None, "For time travel set as.of.instant to an instant or a time"),
    # Spark's file sources
    "pathglobfilter": (None, _FILES),
    "modifiedbefore": (None, _FILES),
    "modifiedafter": (None, _FILES),
    "ignoremissingfiles": ("false", _LOST),
    "ignorecorruptfiles": ("false", _LOST),
}


def refuse_foreign_reads(options: Mapping[str, str]) -> None:
    """``ConfigError`` for a read option with which another source would show other rows."""
    for key, text in options.items():
        served, instead = _FOREIGN_READS.get(re.sub("[^a-z]", "", key.lower()), ("", ""))
        if instead and text.strip().lower() != served:
            raise ConfigError(
                f"'{key}' is not a pyhudi option, and without it the read would show other rows "
                f"than you asked for. {instead}.",
                key=key,
            )


def refuse_foreign(options: Mapping[str, str], commit_prefix: str = "_") -> None:
    """``ConfigError`` for a write option that has a meaning in another format.

    Options with the prefix ``commit_prefix`` go to the commit's metadata, whatever their names.
    """
    for key, text in options.items():
        if key.startswith(commit_prefix) or key.lower().startswith("hoodie."):
            continue
        served, instead = _FOREIGN.get(re.sub("[^a-z]", "", key.lower()), ("", ""))
        if instead and text.strip().lower() != served:
            raise ConfigError(
                f"'{key}' is not a pyhudi option, and without it the write would leave other rows "
                f"or columns than you asked for. Nothing was written. {instead}.",
                key=key,
            )
