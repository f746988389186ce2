"""Runs a case on one engine, and says where two engines differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.hudi_sql.cases import Case, Statement
from integration.peers import Answer, PeerError, SparkPeer

META = "_hoodie_"
#: what Apache Hudi takes most of its time for, and no statement here shows
QUICK = (
    "hoodie.metadata.enable = false",
    "hoodie.embed.timeline.server = false",
    "hoodie.write.markers.type = direct",
    "hoodie.bulkinsert.shuffle.parallelism = 1",
    "hoodie.insert.shuffle.parallelism = 1",
    "hoodie.upsert.shuffle.parallelism = 1",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement gave: ``rows`` of a query, or ``error``, the message's first line."""

    rows: tuple[tuple[Any, ...], ...] = ()
    error: str | None = None


def play(peer: SparkPeer, case: Case, folder: Path) -> list[Outcome]:
    """The outcome of each statement; the session is as before afterwards."""
    peer.sql("create database sides")
    peer.sql("use sides")
    if peer.format == "hudi":
        for setting in QUICK:
            peer.sql(f"set {setting}")
    known = {"format": peer.format, "folder": str(folder / peer.name)}
    try:
        return [_outcome(peer, statement, known) for statement in case.statements]
    finally:
        peer.sql("use default")
        peer.sql("drop database sides cascade")
        peer.sql("reset")


def _outcome(peer: SparkPeer, statement: Statement, known: dict[str, str]) -> Outcome:
    kept = statement.kept
    text = kept[1] if kept else statement.text
    for name, value in known.items():
        text = text.replace("{" + name + "}", value)
    try:
        answer = peer.sql(text)
    except PeerError as error:
        if error.kind in ("Died", "Timeout"):
            raise
        return Outcome(error=_told(error))
    rows = _rows(answer, statement.text)
    if kept:
        known[kept[0]] = str(rows[0][0])
        return Outcome()
    return Outcome(rows if statement.is_query else ())


def _told(error: PeerError) -> str:
    """The first line of a message that says something."""
    lines = [line.strip() for line in error.text.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("An error occurred")), error.kind)


def _rows(answer: Answer, text: str) -> tuple[tuple[Any, ...], ...]:
    """The rows, without the meta columns that nobody named: pyhudi hides them."""
    bare = answer.without_meta() if re.match(r"select \*", text) else answer
    rows = (tuple(row.values()) for row in bare.rows)
    return tuple(row for row in rows if not str(next(iter(row), "")).startswith(META))


@dataclass(frozen=True, slots=True)
class Difference:
    """A statement with two outcomes."""

    statement: Statement
    hudi: Outcome
    pyhudi: Outcome

    def __str__(self) -> str:
        return f"{self.statement.text}\n    Hudi:   {self.hudi}\n    pyhudi: {self.pyhudi}"


def same(hudi: Outcome, pyhudi: Outcome) -> bool:
    """Whether both failed, or both gave the same rows."""
    return (hudi.error is None) == (pyhudi.error is None) and (
        hudi.error is not None or hudi.rows == pyhudi.rows
    )


def differences(case: Case, hudi: Sequence[Outcome], pyhudi: Sequence[Outcome]) -> list[Difference]:
    """The statements of a case whose outcomes are not the same."""
    sides = zip(case.statements, hudi, pyhudi, strict=True)
    return [Difference(each, one, two) for each, one, two in sides if not same(one, two)]
