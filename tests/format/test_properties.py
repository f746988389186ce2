from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import TableCorrupt
from pyhudi.format.properties import parse_properties, render_properties, table_checksum

texts = st.text(max_size=30)


@given(st.dictionaries(texts, texts, max_size=8))
def test_parsing_rendered_properties_gives_them_back(values: dict[str, str]) -> None:
    data = render_properties(values, ["Properties saved on a day", "another"])

    assert parse_properties(data, "p") == values
    assert data.isascii()


def test_each_form_that_java_reads_is_read() -> None:
    data = (
        b"#comment\n! comment = too\n\n  a = 1\r\nb:2\rc 3\nd\n=e\n"
        b"long = one \\\n   two\nf\\=g\\:h = x\\:\\=y\\\\\numl\\u00e4ut=\xe4 \\t\\q\n#end\\\nz=9"
    )

    assert parse_properties(data, "p") == {
        "a": "1", "b": "2", "c": "3", "d": "", "": "e", "long": "one two", "f=g:h": "x:=y\\",
        "umläut": "ä \tq", "z": "9",
    }  # fmt: skip


def test_rendering_escapes_as_java_stores() -> None:
    rendered = render_properties({"a b": " x:y=z #!", "k": "ä😀\n"})

    assert rendered == b"a\\ b=\\ x\\:y\\=z \\#\\!\nk=\\u00E4\\uD83D\\uDE00\\n\n"


def test_a_broken_unicode_escape_names_file_and_rule() -> None:
    with pytest.raises(TableCorrupt, match="four hexadecimal digits") as error:
        parse_properties(b"a=\\u12", ".hoodie/hoodie.properties")
    assert error.value.facts["path"] == ".hoodie/hoodie.properties"


def test_the_checksum_is_that_of_real_tables() -> None:
    assert table_checksum("", "cow_part") == 1267670130
    assert table_checksum("", "cow_np") == 2912929386
