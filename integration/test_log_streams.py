"""Streams and change data of merge-on-read tables that Apache Hudi writes, with each kind of log.

After each write a stream of the newest rows and one of change data read what there is. Each row of
Apache Hudi's snapshot must have come, and the changes must add up to that snapshot.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from integration.peers import Answer
from integration.test_log_reads import (
    HUDI,
    IN_TEST,
    PYHUDI,
    ROLLED_BACK,
    STORIES,
    Peers,
    Story,
    features,
    roll_back,
)
from integration.test_stream_source import CDC, followed
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table

NAMES = ("id", "k", "ts", "n", "v", "p")
State = dict[tuple[Any, ...], tuple[Any, ...]]


def facts(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in NAMES)


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["id"], row["k"]


def state_of(truth: Answer) -> State:
    return {key(row): facts(row) for row in truth.rows}


def apply(state: State, change: dict[str, Any]) -> str | None:
    """Makes one change; what is wrong with it."""
    before, after = change.get("before"), change.get("after")
    held = before or after
    known = state.pop(key(held), None)
    if known != (None if before is None else facts(before)):
        return f"{change} comes on {known}"
    if after is not None:
        state[key(after)] = facts(after)
    return None


SAMPLE = IN_TEST - {"v8-event-time-parquet"}


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(each, id=each.name, marks=[] if each.name in SAMPLE else pytest.mark.matrix)
        for each in STORIES
    ],
)
def test_pyhudi_follows_what_apache_hudi_writes(story: Story, peers: Peers, tmp_path: Path) -> None:
    path, pyhudi, hudi = tmp_path / "logged", peers(PYHUDI), peers(HUDI)
    newest: State = {}
    changed: State = {}
    wrong: list[str] = []
    for number, write in enumerate(story.writes):
        label = f"{number + 1}. {write.operation}"
        if write is ROLLED_BACK:
            roll_back(peers(story.writer), path)
        else:
            mode = "append" if number else "overwrite"
            peers(story.writer).write(path, write.table(), story.given(write), mode)
        if story.writes[number + 1 : number + 2] == [ROLLED_BACK]:
            continue  # a stream that has read a commit ends when it is undone
        wanted = state_of(hudi.read(path))
        for batch in followed(pyhudi, path, tmp_path / "newest", maxFilesPerTrigger="1"):
            newest |= {key(row): facts(row) for row in batch}
        lacks = {k: row for k, row in wanted.items() if newest.get(k) != row}
        wrong += [f"{label}: the stream lacks {lacks}"] if lacks else []
        for batch in followed(pyhudi, path, tmp_path / "changes", **CDC):
            for change in sorted(batch, key=lambda each: (each["ts_ms"], each["op"])):
                fault = apply(changed, change)
                wrong += [f"{label}: {fault}"] if fault else []
        if changed != wanted:
            wrong.append(f"{label}: the changes make {changed} of {wanted}")
    assert not wrong, "\n".join(wrong)
    assert features(path) == story.features
    wrong = ranges(story, path, peers)
    assert not wrong, "\n".join(wrong)


def ranges(story: Story, path: Path, peers: Peers) -> list[str]:
    """What is wrong with the change data of each single commit, by Apache Hudi's time travel."""
    pyhudi, hudi, wrong = peers(PYHUDI), peers(HUDI), []
    times = [str(each.time) for each in open_table(LocalStorage(str(path))).timeline().commits]
    for begin, end in zip(["20000101000000000", *times], times, strict=False):
        asked = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.query.incremental.format": "cdc_columns",
            "hoodie.datasource.read.incr.order": "requested",
            "hoodie.datasource.read.begin.instanttime": begin,
            "hoodie.datasource.read.end.instanttime": end,
        }
        state = state_of(hudi.read(path, as_of=begin)) if begin in times else {}
        for change in pyhudi.read(path, asked).rows:
            fault = apply(state, dict(change))
            wrong += [f"{end}: {fault}"] if fault else []
        wanted = state_of(hudi.read(path, as_of=end))
        if state != wanted:
            wrong.append(f"{end}: the changes make {state} of {wanted}")
    return wrong
