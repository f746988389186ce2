"""A kind of fault: how it is found, what readers see, and the edits that repair it.

Invariant: a fault has edits only if what is on the storage proves what was there before, or that
nobody needs what goes. Otherwise it has none, and says what people can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyhudi.repairs.patient import Patient
from pyhudi.services.bin import Edit


@dataclass(frozen=True, slots=True)
class TableFault:
    """One fault of a table: the file or instant, the evidence, and the repair.

    Without ``edits`` nothing is repaired, and ``repair`` says what people can do. Not ``judged``:
    the table does not tell whether it has the fault.
    """

    about: str
    evidence: str
    repair: str
    edits: tuple[Edit, ...] = ()
    judged: bool = True


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault; ``rule`` of the format is broken, and ``reads`` is what readers see.

    ``closed``: it is looked for also if the properties cannot be read.
    """

    name: str
    rule: str
    reads: str
    find: Callable[[Patient], Iterable[TableFault]]
    closed: bool = False
