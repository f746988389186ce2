"""Changes the name of a table in its properties."""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi.application.runtime import Runtime
from pyhudi.config import resolve_write
from pyhudi.timeline.table import open_table
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.renaming import rename_table


def rename(
    runtime: Runtime, root: str, name: str, given: Mapping[str, str], session: Mapping[str, str]
) -> str:
    """Give the table at ``root`` the ``name``; returns the old name. Error: ``LockTimeout``."""
    table = open_table(runtime.storage(root))
    resolved = resolve_write(given, table.config.raw, session)
    rename_table(runtime.writer(table, resolved), name)
    VIEWS.forget(table.storage)
    return table.config.name
