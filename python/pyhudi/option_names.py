"""Whether the name of an option means anything here, and which name was meant if it does not.

An option of a write or a read must be known: pyhudi's own, or one of another format whose value
asks for what pyhudi does anyhow. TBLPROPERTIES may hold notes of their users, so only a name that
is nearly an option's is refused there. Keys that begin with ``hoodie.`` are judged by ``config``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from pyhudi.errors import ConfigError
from pyhudi.foreign_options import foreign_read, foreign_write, letters_of
from pyhudi.hudi_keys import FIXED, FIXED_READS, UNSERVED_READS, without_effect
from pyhudi.option_tables import READ_TABLE, WRITE_TABLE

# Where a table is: Spark passes these beside the options.
_PLACE: Final = frozenset({"path", "paths"})
# How alike two names must be, 1 for equal: a slip of one or two letters.
_NEARLY: Final = 0.85
# Names too short to say what was meant by them.
_SHORTEST: Final = 6
# What users of other tools call an option, in letters only.
_CALLED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("recordkey", "recordkeys", "recordkeyfields", "keyfields"), "primaryKey"),
    **dict.fromkeys(
        ("precombine", "precombinekey", "precombinefields", "orderingfield", "orderby"),
        "orderingFields",
    ),
    **dict.fromkeys(
        ("partitionby", "partitionfields", "partitionpath", "partitioncolumns", "partitionkeys"),
        "hoodie.datasource.write.partitionpath.field",
    ),
    "tabletype": "type",
    "tablename": "hoodie.table.name",
}


def refuse_unknown_write(options: Mapping[str, str], commit_prefix: str = "_") -> None:
    """``ConfigError`` (key, nearest) for an option of a write that means nothing here.

    Options with the prefix ``commit_prefix`` go to the commit's metadata, whatever their names.
    """
    for key, text in options.items():
        low = key.lower()
        if low.startswith("hoodie.") or (commit_prefix and key.startswith(commit_prefix)):
            continue
        if low in _PLACE or low in _names(write=True):
            continue
        if not foreign_write(key, text):
            _refuse(key, "write", "nothing was written")


def refuse_unknown_read(options: Mapping[str, str]) -> None:
    """``ConfigError`` (key, nearest) for an option of a read that means nothing here.

    Options of writes may be there as well, since many keep one set of options for both.
    """
    for key, text in options.items():
        low = key.lower()
        if low.startswith("hoodie.") or low in _PLACE:
            continue
        if low in _names(write=True) or low in _names(write=False):
            continue
        if not foreign_read(key, text):
            _refuse(key, "read", "it would have had no effect")


def refuse_unserved_read(options: Mapping[str, str]) -> None:
    """``ConfigError`` (key) for an option of Hudi's that asks a read for other rows than it gives.

    ``options`` are those of the call and of its session.
    """
    for key, text in options.items():
        low = key.lower()
        if low in UNSERVED_READS:
            raise ConfigError(
                f"'{key}' is not supported: a read takes one table, or a range of its commits. "
                "Leave it out, and filter the rows or read the files without pyhudi.",
                key=key,
            )
        served = FIXED_READS.get(low)
        if served is not None and text.strip().lower() != served:
            raise ConfigError(
                f"'{key}' is '{text}', but pyhudi supports only '{served}': a read merges the logs "
                "of a table by its merge mode. Leave it out. To read the base files alone, set "
                "hoodie.datasource.query.type to read_optimized.",
                key=key,
            )


def refuse_near_properties(properties: Iterable[str]) -> None:
    """``ConfigError`` (key, nearest) for a name in TBLPROPERTIES that nearly is an option's."""
    for key in properties:
        low = key.lower()
        if low.startswith(("hoodie.", "spark.")) or low in _names(write=True):
            continue
        meant = _meant(key)
        if meant is not None and meant.lower() != low:
            raise ConfigError(
                f"'{key}' in TBLPROPERTIES is not an option, but it nearly is '{meant}', so the "
                "table would not be what it says. Nothing was changed. Write the name as it is, "
                "or give the property a name that is less like it.",
                key=key,
                nearest=meant,
            )


def nearest(key: str) -> str | None:
    """The known name that is most like ``key``; None if no name is."""
    meant = _meant(key)
    if meant is not None:
        return meant
    known = {**_spelled(), **without_effect(), **{key: key for key in (*FIXED, *FIXED_READS)}}
    found = difflib.get_close_matches(key.lower(), known, 1)
    return known[found[0]] if found else None


def _refuse(key: str, what: str, since: str) -> None:
    near = nearest(key)
    hint = f"Did you mean '{near}'?" if near else "No option has a similar name."
    raise ConfigError(
        f"'{key}' is not an option of a {what}, so {since}. {hint} Correct it or leave it out; "
        "docs/options.md lists the options.",
        key=key,
        nearest=near,
    )


def _meant(key: str) -> str | None:
    """The option that ``key`` spells without its prefix, with a slip, or as others call it."""
    letters = letters_of(key)
    if letters in _CALLED:
        return _CALLED[letters]
    prefix, dot, rest = key.partition(".")
    if (
        dot
        and _alike(prefix.lower(), "hoodie") >= 0.6
        and (own := _spelled().get(f"hoodie.{rest}"))
    ):
        return own
    by_letters = _by_letters()
    if letters in by_letters:
        return by_letters[letters]
    if len(letters) < _SHORTEST:
        return None
    found = difflib.get_close_matches(letters, by_letters, 1, _NEARLY)
    return by_letters[found[0]] if found else None


def _alike(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


@cache
def _names(write: bool) -> frozenset[str]:
    rows = WRITE_TABLE if write else READ_TABLE
    return frozenset(key.lower() for row in rows for key in row.keys)


@cache
def _spelled() -> Mapping[str, str]:
    """Each option's names by their lower-case form."""
    return {key.lower(): key for row in (*WRITE_TABLE, *READ_TABLE) for key in row.keys}


@cache
def _by_letters() -> Mapping[str, str]:
    """The names that an option may be called by without ``hoodie.``, in letters only.

    They are the short ones, and the last two parts of the others: ``recordkey.field`` is what users
    of Hudi write who leave the prefix out.
    """
    found: dict[str, str] = {}
    for row in (*WRITE_TABLE, *READ_TABLE):
        for key in row.keys:
            short = not key.startswith(("hoodie.", "spark."))
            tail = key if short else ".".join(key.split(".")[-2:])
            if short or len(key.split(".")) > 3:
                found.setdefault(letters_of(tail), key)
    return found
