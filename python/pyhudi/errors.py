"""Every error that a caller of pyhudi can catch.

A class of its own exists only where the caller would act differently::

    HudiError
    ├── ConfigError          an option or argument is wrong: correct it (key, nearest key)
    ├── SetupError           Java, Spark or the pyhudi jar is missing or of the wrong version
    ├── TableNotFound        there is no Hudi table at the path
    ├── TableExists          there is one already, and the save mode forbids writing to it
    ├── UnsupportedTable     a real table that this version of pyhudi cannot serve (feature)
    ├── TableCorrupt         a file of the table breaks a rule of the format (path, rule)
    ├── InvalidRecord        a row cannot be written: null key, value that does not fit (column)
    ├── SchemaConflict       a column does not fit this table, or any (column, ours, theirs, rule)
    ├── HistoryExpired       the asked instant is no longer kept (asked, earliest)
    ├── CommitConflict       another writer changed the same data first: a retry helps
    ├── WriteFailed          the write is known to have failed: its files may be deleted
    ├── CommitUnknown        the commit may have landed: look first, delete nothing
    ├── WriterFenced         this writer lost its right to commit: stop
    ├── LockTimeout          the table lock stayed taken (owner, since when)
    └── StorageError         the storage refused or lost a request
        └── FileExists       put-if-absent found the name taken

Each message begins with the class in capitals, as in ``[COMMIT_CONFLICT] ...``, and says what
happened, why, and what to do now. In Spark the same text arrives as an ``AnalysisException``.
"""

from __future__ import annotations

import re


class HudiError(Exception):
    """Root of all errors that pyhudi raises on purpose."""

    def __init__(self, message: str, **facts: object) -> None:
        """``facts`` are the named details (owner, path, column, ...), readable as attributes."""
        super().__init__(f"[{self.code()}] {message}")
        self.facts = facts

    @classmethod
    def code(cls) -> str:
        """The name by which SQL users see the error: ``CommitConflict`` -> ``COMMIT_CONFLICT``."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).upper()

    def __getattr__(self, name: str) -> object:
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(name)


class ConfigError(HudiError):
    """An option or argument is wrong; ``key`` names it where there is one."""


class SetupError(HudiError):
    """The installation does not fit: Java, Spark or the pyhudi jar."""


class TableNotFound(HudiError):
    """No Hudi table at ``path``."""


class TableExists(HudiError):
    """A table exists at ``path`` and the caller asked for a new one."""


class UnsupportedTable(HudiError):
    """The table uses ``feature``, which this version of pyhudi does not serve."""


class TableCorrupt(HudiError):
    """The file ``path`` breaks the format's ``rule``."""


class InvalidRecord(HudiError):
    """A row cannot be written; ``column`` names the column at fault."""


class SchemaConflict(HudiError):
    """A column does not fit this table, or any: ``column``, ``ours``, ``theirs``, ``rule``."""


class HistoryExpired(HudiError):
    """The instant ``asked`` is older than ``earliest``, the first that is still kept."""


class CommitConflict(HudiError):
    """Another writer committed a change to the same data: ``ours``, ``theirs``, ``overlap``."""


class WriteFailed(HudiError):
    """The write is known to have failed and nothing of it is visible."""


class CommitUnknown(HudiError):
    """The final put got no answer: the commit may have landed. Nothing was deleted."""


class WriterFenced(HudiError):
    """This writer lost its lock or its heartbeat lapsed; it must not commit."""


class LockTimeout(HudiError):
    """The lock was not free in time: ``owner``, ``since``."""


class StorageError(HudiError):
    """The storage refused or lost a request for ``path``."""


class FileExists(StorageError):
    """Put-if-absent found ``path`` taken."""
