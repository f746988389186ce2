"""Options of other table formats that would change what a write leaves, and that pyhudi lacks.

Passed over, they would cost rows: Delta's ``replaceWhere`` asks for a part of the table, and mode
overwrite without it takes all. Only the options of a write are looked at, not the properties of
tables, in which users keep notes of their own.
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
_BRANCH: Final = "A Hudi table has no branches: write to a table of its own"
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
    "branch": ("main", _BRANCH),
    "isolationlevel": (None, _JUDGED),
    "validatefromsnapshotid": (None, _JUDGED),
}


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
