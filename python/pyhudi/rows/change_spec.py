"""The driver's orders to a worker that reads change data: values without behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from pyhudi.format.change_log import AFTER, BEFORE, OP, TIME
from pyhudi.rows.by_value import ByValue
from pyhudi.rows.spec import FileNames, FileSystemSpec

if TYPE_CHECKING:
    from pyhudi.rows.log_spec import MergeSpec


@dataclass(frozen=True, slots=True)
class Slice(ByValue):
    """A base file: its path relative to the table, and its names of columns if they differ."""

    path: str
    names: FileNames | None = None


@dataclass(frozen=True, slots=True)
class ChangePiece(ByValue):
    """What one commit did to one file group.

    ``logs`` are its change logs; without one the changes are what differs between the slices
    ``before`` and ``after``. ``aligned``: the write statistic says that no row was deleted, so the
    rows of ``before`` should be at their old positions in ``after``. ``ops`` are the operations
    whose rows are wanted.
    """

    instant: str
    logs: tuple[str, ...] = ()
    before: Slice | None = None
    after: Slice | None = None
    aligned: bool = False
    ops: str = "iud"

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of its files."""
        held = (each.path for each in (self.before, self.after) if each is not None)
        return *self.logs, *held


@dataclass(frozen=True, slots=True)
class ChangeSpec(ByValue):
    """One read of change data; all its tasks get the same.

    ``root`` is the table's path in the form for ``fs``. ``before`` and ``after`` are the struct
    types of the images, None for an image that nobody asked for. ``merge`` is how slices with logs
    are merged, with all columns of the table, None in a copy-on-write table; which instants count
    is said by each piece.
    """

    root: str
    fs: FileSystemSpec
    before: pa.StructType | None
    after: pa.StructType | None
    merge: MergeSpec | None = None

    def schema(self) -> pa.Schema:
        """The columns of the answer."""
        images = [(BEFORE, self.before), (AFTER, self.after)]
        fields = [(OP, pa.string()), (TIME, pa.string())]
        return pa.schema([*fields, *((name, kind) for name, kind in images if kind is not None)])
