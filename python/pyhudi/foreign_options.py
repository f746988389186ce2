"""Options of other formats that would change what a write leaves or a read shows.

Passed over, they would cost rows: Delta's ``replaceWhere`` asks for a part of the table, and mode
overwrite without it takes all. Only the options of a write or a read are looked at, not the
properties of tables, in which users keep notes of their own.
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
_COLUMNS: Final = "To change columns otherwise use ALTER TABLE, or write to a new table"
_ONCE: Final = "Look for the commit before you write again"
_BRANCH: Final = "A Hudi table has no branches: use a table of its own"
_JUDGED: Final = "hoodie.write.concurrency.mode says how writers of one table get along"

#: letters of the option -> the one value that says what pyhudi does anyhow, and what to do instead
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
_FILES: Final = "A table's own files are read, whatever their names and times: filter its rows"
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
    "tag": (None, "To travel in time set as.of.instant to an instant or a time"),
    # files of Spark's own
    "pathglobfilter": (None, _FILES),
    "modifiedbefore": (None, _FILES),
    "modifiedafter": (None, _FILES),
    "ignoremissingfiles": ("false", _LOST),
    "ignorecorruptfiles": ("false", _LOST),
}


def refuse_foreign_reads(options: Mapping[str, str]) -> None:
    """``ConfigError`` for an option of a read by which another source would show other rows."""
    for key, text in options.items():
        served, instead = _FOREIGN_READS.get(re.sub("[^a-z]", "", key.lower()), ("", ""))
        if instead and text.strip().lower() != served:
            raise ConfigError(
                f"'{key}' is no option of pyhudi, and without it the read would show other rows "
                f"than asked. {instead}.",
                key=key,
            )


def refuse_foreign(options: Mapping[str, str], commit_prefix: str = "_") -> None:
    """``ConfigError`` for an option of a write that another format would heed.

    Options that begin with ``commit_prefix`` go to the commit's metadata, whatever they say.
    """
    for key, text in options.items():
        if key.startswith(commit_prefix) or key.lower().startswith("hoodie."):
            continue
        served, instead = _FOREIGN.get(re.sub("[^a-z]", "", key.lower()), ("", ""))
        if instead and text.strip().lower() != served:
            raise ConfigError(
                f"'{key}' is no option of pyhudi, and without it the write would leave other rows "
                f"or columns than asked. Nothing was written. {instead}.",
                key=key,
            )
