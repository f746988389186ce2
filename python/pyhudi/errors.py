"""Every error that a caller of pyhudi can catch.

An error has a class of its own only if the caller would act differently::

    HudiError
    ├── ConfigError          an option or argument is wrong: correct it (key, nearest key)
    ├── SetupError           Java, Spark or the pyhudi jar is missing or of the wrong version
    ├── TableNotFound        there is no Hudi table at the path
    ├── TableExists          there is one already, and the save mode forbids writing to it
    ├── UnsupportedTable     a real table that this version of pyhudi cannot serve (feature)
    ├── TableCorrupt         a file of the table breaks a rule of the format (path, rule)
    ├── InvalidRecord        a row cannot be written: null key, value that does not fit (column)
    ├── SchemaConflict       a column does not fit the table (column, ours, theirs, rule)
    ├── HistoryExpired       the asked instant is no longer kept (asked, earliest)
    ├── CommitConflict       another writer changed the same data first: a retry helps
    ├── StreamConflict       a stream's batch does not follow the table's last one (ours, theirs)
    ├── WriteFailed          the write is known to have failed: its files may be deleted
    ├── CommitUnknown        the commit may have landed: look first, delete nothing
    ├── WriterFenced         this writer lost its right to commit: stop
    ├── LockTimeout          the table lock stayed taken (owner, since when)
    └── StorageError         the storage refused or lost a request
        └── FileExists       put-if-absent found the name taken

The details of an error are fields of its class; a field that does not apply has its default. Some
of them steer control flow: ``StorageError.had_no_effect`` says whether files may be deleted.

Each message begins with the class in capitals, as in ``[COMMIT_CONFLICT] ...``, and says what
happened, why, and what to do now. In Spark the same text arrives as an ``AnalysisException``.
"""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Final, TypeAlias, TypeVar

_Error = TypeVar("_Error", bound="HudiError")


@dataclass(eq=False, repr=False)
class HudiError(Exception):
    """Root of all errors that pyhudi raises on purpose."""

    message: InitVar[str]

    def __post_init__(self, message: str) -> None:
        self.args = (f"[{self.code()}] {message}",)

    @classmethod
    def code(cls) -> str:
        """The name by which SQL users see the error: ``CommitConflict`` -> ``COMMIT_CONFLICT``."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).upper()

    @property
    def facts(self) -> dict[str, object]:
        """The fields that are set, by name, for code that shows or passes on all of them."""
        values, known = vars(self), type(self).__dataclass_fields__.values()
        return {
            each.name: values[each.name]
            for each in known
            if each.name in values and values[each.name] is not each.default
        }

    def restated(self: _Error, message: str) -> _Error:
        """The same error with the same facts, but another message."""
        return type(self)(message, **self.facts)


@dataclass(eq=False, repr=False)
class ConfigError(HudiError):
    """An option or argument is wrong; ``key`` is its name, if it has one."""

    _: KW_ONLY
    key: str | None = None
    nearest: str | None = None
    value: str | None = None
    #: the number of file groups that a write wanted to lock, if it was too large
    groups: int | None = None


@dataclass(eq=False, repr=False)
class SetupError(HudiError):
    """The installation does not fit: Java, Spark or the pyhudi jar."""

    _: KW_ONLY
    java: int | None = None


@dataclass(eq=False, repr=False)
class TableNotFound(HudiError):
    """No Hudi table at ``path``."""

    _: KW_ONLY
    path: str | None = None


@dataclass(eq=False, repr=False)
class TableExists(HudiError):
    """A table exists at ``path`` and the caller asked for a new one."""

    _: KW_ONLY
    path: str | None = None


@dataclass(eq=False, repr=False)
class UnsupportedTable(HudiError):
    """The table uses ``feature``, which this version of pyhudi does not serve."""

    _: KW_ONLY
    feature: str | None = None
    path: str | None = None
    column: str | None = None
    #: the logs beside ``path`` cannot tell the rows of a key apart
    copied: bool = False
    #: a file group of which a lookup reads no keys: it has logs without a base file
    of_logs: bool = False


@dataclass(eq=False, repr=False)
class TableCorrupt(HudiError):
    """The file ``path`` breaks the format's ``rule``."""

    _: KW_ONLY
    path: str | None = None
    rule: str | None = None
    #: the commit that wrote the file, if that is known
    instant: str | None = None


@dataclass(eq=False, repr=False)
class InvalidRecord(HudiError):
    """A row cannot be written; ``column`` names the column at fault."""

    _: KW_ONLY
    column: str | None = None


@dataclass(eq=False, repr=False)
class SchemaConflict(HudiError):
    """A column does not fit the table: ``column``, ``ours``, ``theirs``, ``rule``."""

    _: KW_ONLY
    column: str | None = None
    ours: object = None
    theirs: object = None
    rule: str | None = None


@dataclass(eq=False, repr=False)
class HistoryExpired(HudiError):
    """The instant ``asked`` is no longer kept; ``earliest`` is the first that is."""

    _: KW_ONLY
    asked: str | None = None
    earliest: str | None = None
    #: the table changed while it was listed: a second listing finds it complete
    moved: bool = False
    #: the restore that is under way
    pending: str | None = None


@dataclass(eq=False, repr=False)
class CommitConflict(HudiError):
    """Another writer committed a change to the same data: ``ours``, ``theirs``, ``overlap``."""

    _: KW_ONLY
    ours: str | None = None
    theirs: str | None = None
    overlap: tuple[object, ...] = ()
    path: str | None = None
    #: found before data was written, by a write that keeps its locks: no work is lost
    before_data: bool = False
    #: ``theirs`` is planned or runs: only its end helps, which may take long
    pending: bool = False
    #: the write itself has compacted logs that were in its way: no race was lost
    compacted: bool = False
    #: the pause before the statement is evaluated again, if its rows came from the table itself
    again_in_ms: int | None = None


@dataclass(eq=False, repr=False)
class StreamConflict(HudiError):
    """A batch of a stream does not follow the last one that the table has of ``stream``, or makes
    other writes than that one did."""

    _: KW_ONLY
    ours: str | None = None
    theirs: str | None = None
    stream: str | None = None


@dataclass(eq=False, repr=False)
class WriteFailed(HudiError):
    """The write is known to have failed and nothing of it is visible."""

    _: KW_ONLY
    instant: str | None = None
    ours: str | None = None
    theirs: str | None = None
    overlap: tuple[object, ...] = ()
    path: str | None = None
    #: what Spark says of the failed job, on one line
    reason: str | None = None
    #: a lookup by hashes took a new key for one of ``path``
    misplaced: bool = False
    #: a row came after the delete of its key, too late for the logs beside ``path``
    late: bool = False


@dataclass(eq=False, repr=False)
class CommitUnknown(HudiError):
    """The final put got no answer: the commit may have landed. Nothing was deleted."""

    _: KW_ONLY
    instant: str | None = None
    path: str | None = None
    theirs: str | None = None
    #: the pause before the statement is evaluated again, if its rows came from the table itself
    again_in_ms: int | None = None


@dataclass(eq=False, repr=False)
class WriterFenced(HudiError):
    """This writer lost its lock or its heartbeat lapsed; it must not commit."""

    _: KW_ONLY
    instant: str | None = None
    group: str | None = None
    #: the pause before the statement is evaluated again, if its rows came from the table itself
    again_in_ms: int | None = None


@dataclass(eq=False, repr=False)
class LockTimeout(HudiError):
    """The lock was not free in time: ``owner``, ``since``."""

    _: KW_ONLY
    #: a ``locks.base.LockOwner``, if the holder says who it is
    owner: object = None
    host: str | None = None
    #: epoch milliseconds
    since: int | None = None
    group: str | None = None
    #: the pause before the statement is evaluated again, if its rows came from the table itself
    again_in_ms: int | None = None


#: after these a statement that reads its own table may be evaluated again, ``again_in_ms`` later
RACES: Final = (CommitConflict, CommitUnknown, LockTimeout, WriterFenced)
Race: TypeAlias = CommitConflict | CommitUnknown | LockTimeout | WriterFenced


@dataclass(eq=False, repr=False)
class StorageError(HudiError):
    """The storage refused or lost a request for ``path``."""

    _: KW_ONLY
    path: str | None = None
    #: true if the request had no effect and can never have one. A backend sets it on purpose, if
    #: the error proves it. False means that nobody knows, so nothing may be deleted.
    had_no_effect: bool = False


@dataclass(eq=False, repr=False)
class FileExists(StorageError):
    """Put-if-absent found ``path`` taken."""

    _: KW_ONLY
    had_no_effect: bool = True
