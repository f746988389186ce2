"""The bounded cache of the package: it keeps what was used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """At most ``limit`` values by key, the least recently used dropped first; for any thread.

    With ``weigh`` the weights of all values together stay within ``most``; a value is weighed once,
    when it is put. The newest value stays, even if it alone weighs more.
    """

    def __init__(
        self,
        limit: int | None = None,
        most: int = 0,
        weigh: Callable[[Value], int] | None = None,
    ) -> None:
        self._limit, self._most, self._weigh = limit, most, weigh
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

    def put(self, key: Key, value: Value) -> None:
        """Keep ``value``; it replaces an earlier one."""
        weight = self._weigh(value) if self._weigh is not None else 0
        with self._lock:
            self._drop(key)
            self._values[key] = value, weight
            self._weight += weight
            while len(self._values) > 1 and self._too_much():
                self._drop(next(iter(self._values)))

    def forget(self, belongs: Callable[[Key], bool] = lambda key: True) -> None:
        """Drop the values whose key passes ``belongs``; all of them by default."""
        with self._lock:
            for key in [key for key in self._values if belongs(key)]:
                self._drop(key)

    def kept(self) -> tuple[Key, ...]:
        """The keys in the cache, the least recently used first."""
        with self._lock:
            return tuple(self._values)

    def _too_much(self) -> bool:
        many = self._limit is not None and len(self._values) > self._limit
        return many or self._weight > self._most > 0

    def _drop(self, key: Key) -> None:
        if key in self._values:
            _, weight = self._values.pop(key)
            self._weight -= weight
