"""One way of saying that a file breaks the format: its path, the rule, and what to do now."""

from __future__ import annotations

from pyhudi.errors import TableCorrupt


def corrupt(path: str, rule: str, found: str) -> TableCorrupt:
    """The error for a file at ``path`` that breaks ``rule``; ``found`` says what is there."""
    return TableCorrupt(
        f"'{path}' breaks the rule \"{rule}\": {found}. Nothing was changed. Restore this file "
        "from a copy, or have Apache Hudi repair the table.",
        path=path,
        rule=rule,
    )
