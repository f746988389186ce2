"""The driver's orders to a worker that merges log files: values without behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.rows.by_value import ByValue
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.spec import FileNames, FileSystemSpec, Filled, GroupPlan

Positions = npt.NDArray[np.int64]

_NO_COLUMNS: Final = pa.struct([])
#: of so many records of a block one is a landmark
LANDMARK: Final = 128


def _nowhere() -> Positions:
    return np.array([], np.int64)


@dataclass(frozen=True, slots=True)
class CountedInstants(ByValue):
    """The instants whose blocks count: ``completed`` ones, and all before ``first``.

    None after ``until`` counts; empty means no bound. Nor does one that was ``undone``.
    """

    completed: frozenset[str]
    first: str
    until: str = ""
    undone: frozenset[str] = frozenset()

    def __contains__(self, instant: str) -> bool:
        if (self.until and instant > self.until) or instant in self.undone:
            return False
        return instant in self.completed or instant < self.first


@dataclass(frozen=True, slots=True)
class LogSlice(ByValue):
    """A slice: its base file, that file's instant, and the paths of its logs in order, if any.

    Paths are relative to the table. ``names`` has the names of columns by a block's instant, where
    they differ from the table's.
    """

    base: Slice | None
    base_instant: str
    logs: tuple[str, ...]
    names: Mapping[str, FileNames] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MergeSpec(ByValue):
    """One read of slices with logs; all its tasks get the same.

    ``root`` is the table's path in the form for ``fs``. ``rows`` is the struct type of the answer,
    ``ordering`` that of the ordering columns, empty if the later write wins; ``ordering_paths``
    name them in this struct, a field of a column with dots. A row whose column ``marker[0]`` has
    the text ``marker[1]`` is a delete. The column ``named[0]`` gets the path of the row's log,
    after the text ``named[1]``. ``whole_logs``: each log is of one write, so no block may be torn.
    ``filled``: which values of a row come from the row below; None if its own ones count, all.
    ``data`` are the table's columns without meta columns, of which a row below may give one.
    """

    root: str
    fs: FileSystemSpec
    counted: CountedInstants
    rows: pa.StructType
    ordering: pa.StructType
    ordering_paths: tuple[str, ...] = ()
    marker: tuple[str, str] | None = None
    named: tuple[str, str] | None = None
    whole_logs: bool = False
    filled: Filled | None = None
    data: pa.StructType = _NO_COLUMNS

    def schema(self) -> pa.Schema:
        """The columns of the answer."""
        return pa.schema(list(self.rows))


@dataclass(frozen=True, slots=True)
class LoggedSlices(ByValue):
    """Slices with logs by the ordinals of their file groups; ``order`` is how they are merged.

    ``planned`` has the blocks of a slice that a pending compaction merges: those before an instant
    in logs with these paths.
    """

    order: MergeSpec
    slices: Mapping[int, LogSlice]
    planned: Mapping[int, tuple[str, frozenset[str]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BlockPlace(ByValue):
    """Where the content of a block is: ``length`` bytes from ``at`` on in the log ``path``.

    ``schema`` is the Avro schema of its rows; empty if they are no Avro. ``landmarks`` are the
    places in the content where every ``LANDMARK``-th record begins, with its length; empty if
    nobody has looked.
    """

    path: str
    at: int
    length: int
    schema: str
    landmarks: Positions = field(default_factory=_nowhere)


@dataclass(frozen=True, slots=True)
class Merged(ByValue):
    """What a slice's logs leave: ``masked`` rows of its base file, by position, do not count;
    ``kept`` are the rows of each block that do, in the order of the merge, ``blocks`` its place."""

    masked: Positions
    kept: tuple[Positions, ...]
    blocks: tuple[BlockPlace, ...] = ()

    @property
    def rows(self) -> int:
        """Rows that come from logs."""
        return sum(len(each) for each in self.kept)


@dataclass(frozen=True, slots=True)
class SliceChange(ByValue):
    """What the commit ``instant`` did to a slice with logs; blocks of ``counted`` instants count.

    The changes are what its blocks did to the rows of the other ones. With ``whole`` they are this
    operation for every row of the slice. ``ops`` are the operations whose rows are wanted.
    ``ordering`` are the ordering columns of the time, None for those of ``MergeSpec``: in another
    type other rows might have won.
    """

    instant: str
    slice: LogSlice
    counted: CountedInstants
    ops: str = "iud"
    whole: str = ""
    ordering: pa.StructType | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of its files."""
        base = self.slice.base
        return (*([base.path] if base is not None else []), *self.slice.logs)


@dataclass(frozen=True, slots=True)
class SliceChanges(ByValue):
    """What several commits did to slices of one base file, in their order; one at least.

    The files are those of the last one at most, and are read once for all.
    """

    changes: tuple[SliceChange, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of its files."""
        return tuple(dict.fromkeys(path for each in self.changes for path in each.files))


@dataclass(frozen=True, slots=True)
class CompactTask(ByValue):
    """A slice with logs that becomes a base file of the same file group.

    Of a ``plan`` with the version of a log its logs alone are merged, into such a log.
    """

    plan: GroupPlan
    slice: LogSlice


@dataclass(frozen=True, slots=True)
class ClusterTask(ByValue):
    """Slices of one partition that become ``outputs`` new file groups.

    The new file ids are ``prefix``, a dash and a number, the same in each attempt of a task.
    ``order`` is how logs are merged, None if no slice has any.
    """

    partition_path: str
    slices: tuple[LogSlice, ...]
    outputs: int
    prefix: str
    order: MergeSpec | None = None
