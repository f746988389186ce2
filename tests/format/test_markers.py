from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import TableCorrupt
from pyhudi.format.markers import (
    Marker,
    MarkerForm,
    MarkerKind,
    is_marker_list,
    marker_fault,
    marker_path,
    parse_marker,
    parse_marker_form,
    parse_marker_list,
    render_marker_form,
    render_marker_list,
)
from tests import golden_tables

paths = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1)
markers = st.builds(Marker, paths, st.sampled_from(MarkerKind))


@given(st.lists(markers))
def test_parsing_rendered_markers_gives_them_back(listed: list[Marker]) -> None:
    assert [parse_marker(marker.render()) for marker in listed] == listed
    assert parse_marker_list(render_marker_list(listed), "p") == listed


@pytest.mark.parametrize("form", list(MarkerForm))
def test_parsing_a_rendered_form_gives_it_back(form: MarkerForm) -> None:
    assert parse_marker_form(render_marker_form(form), "p") is form


def test_a_direct_marker_mirrors_the_path_of_its_data_file() -> None:
    path = marker_path("20260102030405678", "dt=1/f.parquet", MarkerKind.MERGE)

    assert path == ".hoodie/.temp/20260102030405678/dt=1/f.parquet.marker.MERGE"


@pytest.mark.parametrize("text", ["MARKERS.type", "f.parquet", ".marker.CREATE", "f.marker.DROP"])
def test_other_files_are_no_markers(text: str) -> None:
    assert parse_marker(text) is None


def test_the_lists_of_a_timeline_server_are_told_by_name() -> None:
    assert [is_marker_list(n) for n in ("MARKERS0", "MARKERS12", "MARKERS.type", "MARKERS")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_a_line_cut_short_at_the_end_is_passed_over_but_none_before_it() -> None:
    assert parse_marker_list(b"a.marker.CREATE\nb.marker.CRE", "p") == [
        Marker("a", MarkerKind.CREATE)
    ]
    with pytest.raises(TableCorrupt, match="each line is one marker"):
        parse_marker_list(b"b.marker.CRE\na.marker.CREATE\n", "p")
    with pytest.raises(TableCorrupt, match="names a form of markers"):
        parse_marker_form(b"SOMETHING", "p")


def test_the_markers_of_killed_writers_are_read() -> None:
    listed = golden_tables.BY_NAME["h120_v9-cow_crash_timeli.midfail"].files()
    direct = golden_tables.BY_NAME["h120_v9-cow_crash_direct.midfail"].files()

    (folder,) = {p.rpartition("/")[0] for p in listed if p.endswith("/MARKERS.type")}
    assert parse_marker_form(listed[f"{folder}/MARKERS.type"], "p") is (
        MarkerForm.TIMELINE_SERVER_BASED
    )
    (marker,) = parse_marker_list(listed[f"{folder}/MARKERS0"], "p")
    assert marker.kind is MarkerKind.MERGE
    assert marker.data_path in listed

    (path,) = [p for p in direct if ".marker." in p]
    instant = path.split("/")[2]
    marker_of_path = parse_marker(path.removeprefix(f".hoodie/.temp/{instant}/"))
    assert marker_of_path is not None
    assert marker_path(instant, marker_of_path.data_path, marker_of_path.kind) == path
    assert marker_of_path.data_path in direct


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a/f.parquet.marker.CREATE", None),
        ("f.parquet.marker.MERGE", None),
        ("stadt=Köln/ein Tag/f.parquet.marker.APPEND", None),
        ("f.parquet", "does not end"),
        ("f.parquet.marker.DROP", "does not end"),
        ("../f.marker.CREATE", "does not lead to a data file"),
        ("a/../f.marker.CREATE", "does not lead to a data file"),
        ("/etc/f.marker.CREATE", "does not lead to a data file"),
        ("a//f.marker.CREATE", "does not lead to a data file"),
        ("./f.marker.CREATE", "does not lead to a data file"),
        ("a\\..\\f.marker.CREATE", "does not lead to a data file"),
        (".hoodie/timeline/f.marker.CREATE", "does not lead to a data file"),
        ("a\nb/f.marker.CREATE", "control character"),
        ("a\rb/f.marker.CREATE", "control character"),
        ("a\0b/f.marker.CREATE", "control character"),
        ("a\x85b/f.marker.CREATE", "control character"),
        ("a\udcffb/f.marker.CREATE", "not valid text"),
        ("a" * 3000 + ".marker.CREATE", "3014 bytes"),
    ],
)
def test_only_a_line_that_leads_to_a_data_file_of_the_table_is_a_marker(
    text: str, fault: str | None
) -> None:
    found = marker_fault(text)
    assert found is None if fault is None else found is not None and fault in found
