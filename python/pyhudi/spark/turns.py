"""Which write of a micro-batch a statement is, and what the table's mark calls it.

Invariant: a statement has the same name whether or not the table has its rows by now, so a batch
that is repeated names its writes alike.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final

from pyhudi.application.batches import Turn
from pyhudi.application.runtime import Runtime
from pyhudi.config import Operation
from pyhudi.spark.questions import Options, Target
from pyhudi.writes.intent import OPERATION, Overwrite, SaveMode
from pyhudi.writes.own_reads import place_of

DELETE: Final = "delete"
MERGE: Final = "merge"
TRUNCATE: Final = "truncate"

_REMOVING = frozenset(
    {
        Operation.DELETE.value,
        Operation.DELETE_PARTITION.value,
        Operation.INSERT_OVERWRITE.value,
        Operation.INSERT_OVERWRITE_TABLE.value,
    }
)


def turn_of(runtime: Runtime, at: Target, kind: str) -> AbstractContextManager[Turn | None]:
    """The turn of a statement to the table of ``at``, by whatever path that is named."""
    if at.batch is None:
        return nullcontext()
    return runtime.ordinals.turn(place_of(runtime.storage(at.root)), at.batch, kind)


def saved(mode: SaveMode, options: Options) -> str:
    """What ``df.write.save`` is: its mode, and its operation if that removes rows.

    A stream that is started again may well add its rows by another operation.
    """
    given = next((options[key].lower() for key in options if key.lower() == OPERATION), "")
    return f"{mode.value} by {given}" if given in _REMOVING else mode.value


def inserted(overwrite: Overwrite) -> str:
    """What an INSERT is. One that made its table is an INSERT or an overwrite if it is repeated."""
    if overwrite is Overwrite.NEW:
        return ""
    return "insert" if overwrite is Overwrite.NONE else "insert overwrite"
