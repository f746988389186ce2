"""Values that are sent to executors without pyhudi."""

from __future__ import annotations


class ByValue:
    """A slotted dataclass that is pickled as a call of its class.

    Spark 3.5's cloudpickle sends a dataclass by value without the marks that the dataclass needs
    for its own pickling: its fields would arrive unset.
    """

    __slots__: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), tuple(getattr(self, name) for name in self.__slots__)
