"""Listings in their forms: text, HTML, Arrow, pandas; Spark's is in tests/spark."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from pyhudi.listing import SHOWN, Listing


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Entry:
    name: str
    size: int
    colour: Colour
    rows: int | None = None
    known: bool = True


ENTRIES = [Entry("a<b", 1200, Colour.RED, 7), Entry("c", 3, Colour.RED, None, known=False)]


def test_a_listing_is_a_list_that_shows_itself_as_a_table() -> None:
    listing = Listing(Entry, ENTRIES)
    assert listing[0].name == "a<b"
    assert len(listing) == 2
    assert repr(listing).splitlines() == [
        "name   size  colour  rows  known",
        "----  -----  ------  ----  -----",
        "a<b   1,200  red        7  True",
        "c         3  red        -  False",
    ]


def test_numbers_with_a_fraction_keep_it_and_whole_ones_show_none() -> None:
    @dataclass(frozen=True)
    class Ratio:
        value: float | None

    listing = Listing(Ratio, [Ratio(1200.0), Ratio(0.5), Ratio(None)])
    assert [line.strip() for line in repr(listing).splitlines()[2:]] == ["1,200", "0.5", "-"]
    assert listing.ddl() == "`value` double"
    assert listing.to_arrow()["value"].to_pylist() == [1200.0, 0.5, None]


def test_notebooks_get_it_escaped() -> None:
    shown = Listing(Entry, ENTRIES)._repr_html_()
    assert shown.startswith("<table><tr><th>name</th>")
    assert "<td>a&lt;b</td><td>1,200</td><td>red</td>" in shown


def test_a_long_listing_is_cut_where_it_is_shown_only() -> None:
    listing = Listing(Entry, [Entry(str(n), n, Colour.RED) for n in range(SHOWN + 5)])
    assert repr(listing).endswith("... 5 more")
    assert "... 5 more" in listing._repr_html_()
    assert listing.to_arrow().num_rows == SHOWN + 5


def test_the_arrow_form_has_its_types_even_without_entries() -> None:
    schema = pa.schema(
        [
            ("name", pa.string()),
            ("size", pa.int64()),
            ("colour", pa.string()),
            ("rows", pa.int64()),
            ("known", pa.bool_()),
        ]
    )
    assert Listing(Entry).to_arrow().schema == schema
    assert Listing(Entry, ENTRIES).to_arrow().to_pylist()[1] == {
        "name": "c", "size": 3, "colour": "red", "rows": None, "known": False,
    }  # fmt: skip


def test_the_pandas_form_has_the_same_columns() -> None:
    frame = Listing(Entry, ENTRIES).to_pandas()
    assert list(frame.columns) == ["name", "size", "colour", "rows", "known"]
    assert frame["size"].sum() == 1203
