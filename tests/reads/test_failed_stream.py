"""A stream that cannot begin leaves nothing behind: Spark stops no source that has not begun."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyhudi.errors import TableNotFound
from pyhudi.storage.local import LocalStorage
from tests.reads.changing_table import changing

handlers = pytest.importorskip("pyhudi.spark.stream_handlers")
protocol = pytest.importorskip("pyhudi.spark.stream_protocol")


def test_a_stream_that_cannot_begin_is_forgotten(tmp_path: Path) -> None:
    runtime = SimpleNamespace(storage=LocalStorage)
    streams = handlers.StreamHandlers(cast(Any, None), cast(Any, runtime))
    at = SimpleNamespace(root=str(tmp_path), options={}, session={})
    for number in range(3):
        with pytest.raises(TableNotFound):
            streams.begin_stream(at, protocol.BeginStream(f"stream-{number}", "", None))
    assert streams._streams == {}


def test_a_stream_whose_query_does_not_begin_is_not_kept() -> None:
    world = changing().world
    streams = handlers.StreamHandlers(cast(Any, None), cast(Any, world.runtime))
    at = SimpleNamespace(root=world.root, options={}, session={})
    begun = streams.begin_stream(at, protocol.BeginStream("stream", "", None))
    assert streams._streams == {}
    streams.next_batch(at, protocol.NextBatch("stream", "", None, begun.place, False, None))
    assert [*streams._streams] == ["stream"]
    streams.end_stream(at, protocol.EndStream("stream"))
    assert streams._streams == {}
