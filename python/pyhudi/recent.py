"""What was used last, kept in memory: the bounded cache of the package."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """At most ``limit`` values by key, the least recently used dropped first; for any thread.

    With ``most`` the weights of all values together stay within it, in a unit of the caller's. The
    newest value stays, even if it alone weighs more.
    """

    def __init__(self, limit: int | None = None, most: int = 0) -> None:
        self._limit, self._most = limit, most
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._weight = 0
        self._lock = Lock()

    def get(self, key: Key) -> Value | None:
        """The value of ``key``; None if it is not kept."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: Key, value: Value, weight: int = 0) -> None:
        """Keep ``value``; it replaces an earlier one."""
        with self._lock:
            self._drop(key)
            self._values[key] = value, weight
            self._weight += weight
            while len(self._values) > 1 and self._too_much():
                self._drop(next(iter(self._values)))

    def forget(self, belongs: Callable[[Key], bool] = lambda key: True) -> None:
        """Drop the values of the keys that ``belongs`` is true of; all of them unless told."""
        with self._lock:
            for key in [key for key in self._values if belongs(key)]:
                self._drop(key)

    def shrink(self, most: int) -> None:
        """Drop the least recently used values until the weights together stay within ``most``."""
        with self._lock:
            while self._values and self._weight > most:
                self._drop(next(iter(self._values)))

    @property
    def weight(self) -> int:
        """The weights of all values together."""
        with self._lock:
            return self._weight

    def kept(self) -> tuple[Key, ...]:
        """The keys of what is kept, the least recently used first."""
        with self._lock:
            return tuple(self._values)

    def _too_much(self) -> bool:
        many = self._limit is not None and len(self._values) > self._limit
        return many or self._weight > self._most > 0

    def _drop(self, key: Key) -> None:
        if key in self._values:
            _, weight = self._values.pop(key)
            self._weight -= weight
