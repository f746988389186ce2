from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import TableCorrupt
from pyhudi.format import plans
from pyhudi.format.commit_metadata import CommitMetadata, render_commit

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# Avro's int and long are narrower than Python's; a float of any size is a double.
st.register_type_strategy(str, texts)
st.register_type_strategy(int, st.integers(0, 2**31 - 1))
st.register_type_strategy(float, st.floats(allow_nan=False))

CODECS: list[tuple[type[Any], Callable[[bytes, str], Any], Callable[[Any], bytes]]] = [
    (plans.CleanerPlan, plans.parse_cleaner_plan, plans.render_cleaner_plan),
    (plans.CleanMetadata, plans.parse_clean_metadata, plans.render_clean_metadata),
    (plans.RollbackPlan, plans.parse_rollback_plan, plans.render_rollback_plan),
    (plans.RollbackMetadata, plans.parse_rollback_metadata, plans.render_rollback_metadata),
    (plans.RestorePlan, plans.parse_restore_plan, plans.render_restore_plan),
    (plans.RestoreMetadata, plans.parse_restore_metadata, plans.render_restore_metadata),
    (plans.SavepointMetadata, plans.parse_savepoint, plans.render_savepoint),
    (plans.CompactionPlan, plans.parse_compaction_plan, plans.render_compaction_plan),
    (plans.RequestedReplace, plans.parse_requested_replace, plans.render_requested_replace),
]


@pytest.mark.parametrize(("kind", "parse", "render"), CODECS, ids=lambda p: p.__name__)
@given(data=st.data())
@settings(max_examples=25)
def test_parsing_a_rendered_plan_gives_it_back(
    kind: type[Any],
    parse: Callable[[bytes, str], Any],
    render: Callable[[Any], bytes],
    data: st.DataObject,
) -> None:
    value = data.draw(st.from_type(kind))

    assert parse(render(value), "p") == value


@pytest.mark.parametrize("parse", [parse for _, parse, _ in CODECS[:-1]])
def test_an_empty_file_is_no_plan(parse: Callable[[bytes, str], Any]) -> None:
    with pytest.raises(TableCorrupt) as error:
        parse(b"", ".hoodie/T.plan")
    assert error.value.facts["path"] == ".hoodie/T.plan"


def test_an_empty_requested_replace_is_an_empty_plan() -> None:
    assert plans.parse_requested_replace(b"", "p") == plans.RequestedReplace()


def test_a_value_of_another_kind_names_the_file() -> None:
    # Both records have extraMetadata and a version; partitionMetadata is missing in a commit.
    foreign = render_commit(CommitMetadata("UPSERT", extra={"a": "b"}), 2)

    read = plans.parse_clean_metadata(foreign, "p")

    assert isinstance(read.partition_metadata, Mapping)
    assert read.start_clean_time == ""
