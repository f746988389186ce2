"""The error for a file that breaks the format: its path, the rule, and what to do now."""

from __future__ import annotations

from pyhudi.errors import TableCorrupt


def corrupt(path: str, rule: str, found: str) -> TableCorrupt:
    """The error for a file at ``path`` that breaks ``rule``; ``found`` is what the file has."""
    return TableCorrupt(
        f"'{path}' breaks the rule \"{rule}\": {found}. Nothing was changed. Restore this file "
        "from a copy, or let Apache Hudi repair the table.",
        path=path,
        rule=rule,
    )
