"""Which partitions a service works on, as its options say: a list of paths, or else a pattern."""

from __future__ import annotations

import re
from collections.abc import Callable

from pyhudi.errors import ConfigError


def stated_partitions(
    selected: str | None, pattern: str | None, key: str
) -> tuple[frozenset[str] | None, re.Pattern[str] | None]:
    """The paths and the pattern; ``ConfigError`` with ``key`` for a pattern that is none."""
    try:
        regex = re.compile(pattern) if pattern is not None else None
    except re.error as e:
        raise ConfigError(f"'{key}' is '{pattern}', no regular expression: {e}.", key=key) from e
    return frozenset(selected.split(",")) if selected is not None else None, regex


def is_chosen(
    partitions: frozenset[str] | None, regex: re.Pattern[str] | None
) -> Callable[[str], bool]:
    """Whether a path is among ``partitions``, or else matches ``regex`` as a whole; or neither."""
    if partitions is not None:
        return partitions.__contains__
    return (lambda path: True) if regex is None else (lambda path: bool(regex.fullmatch(path)))
