"""A lookup beside logs: each key of a base file comes with the values of its newest row."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.fs
import pytest
from hypothesis import given, settings

from pyhudi.index import lookup as looking
from pyhudi.index.logged_values import LoggedValues
from pyhudi.index.lookup import KEY, OLD, LookupSpec, file_hits
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.log_spec import LoggedSlices, LogSlice
from pyhudi.rows.spec import FileSystemSpec
from tests.rows.test_log_writer import EVENTS, KEYS, Event, base_of, log, merged, parts, write_of
from tests.rows.workers import T1, T2, T3

BESIDE = pa.schema([("ts", pa.int64()), ("name", pa.string())])


@pytest.mark.parametrize("layout", [1, 2])
@given(first=EVENTS, second=EVENTS)
@settings(deadline=None, max_examples=25)
def test_each_key_has_the_values_of_its_newest_row_or_none(
    tmp_path_factory: pytest.TempPathFactory, layout: int, first: list[Event], second: list[Event]
) -> None:
    root = tmp_path_factory.mktemp("t")
    base, logs = base_of(root, layout), []
    for number, (instant, events) in enumerate(((T2, first), (T3, second))):
        write = write_of(root, instant, layout=layout)
        logs.append(log(write, base, events, 1 if layout > 1 else number + 1))
    order, _ = parts(write_of(root, T3, layout=layout), root, [])
    order = replace(order, rows=pa.struct([pa.field(KEY, pa.string()), *BESIDE]))
    of = LogSlice(Slice(base["path"]), T1, tuple(each["path"] for each in logs if each["path"]))
    spec = LookupSpec(
        str(root), FileSystemSpec(), {7: (base["path"], "p")}, beside=BESIDE,
        logged=LoggedValues(LoggedSlices(order, {7: of})),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looking, "BATCH_ROWS", 4)  # the places go on from batch to batch
        hits = pa.Table.from_batches(file_hits(spec, pyarrow.fs.LocalFileSystem(), 7))
    found = {
        key: (name, ts)
        for key, ts, name in zip(
            *(hits[n].to_pylist() for n in (KEY, f"{OLD}0", f"{OLD}1")), strict=True
        )
    }
    seen = {key: (name, ts) for key, name, ts in merged(write, root, base, logs)}
    assert found == {key: seen.get(key, (None, None)) for key in KEYS}
