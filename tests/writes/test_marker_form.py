from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from pyhudi.config import MarkerForm, WriteOptions
from pyhudi.writes.orders import marker_form

LISTS, DIRECT = MarkerForm.TIMELINE_SERVER_BASED, MarkerForm.DIRECT


@dataclass
class AWrite:
    """As much of a write as the choice needs."""

    root: str
    options: WriteOptions = field(default_factory=WriteOptions)

    @property
    def table(self) -> SimpleNamespace:
        return SimpleNamespace(storage=SimpleNamespace(root=self.root))


@pytest.mark.parametrize(
    ("root", "form"),
    [
        ("/data/t", LISTS),
        ("s3a://b/t", LISTS),
        ("abfss://c@a/t", LISTS),
        ("hdfs://nn:8020/t", DIRECT),
        ("viewfs://cluster/t", DIRECT),
    ],
)
def test_markers_are_lists_unless_the_table_is_on_hdfs(root: str, form: MarkerForm) -> None:
    assert marker_form(AWrite(root)) is form  # type: ignore[arg-type]


@pytest.mark.parametrize("form", [LISTS, DIRECT])
@pytest.mark.parametrize("root", ["/data/t", "hdfs://nn/t"])
def test_the_option_decides_everywhere(root: str, form: MarkerForm) -> None:
    write = AWrite(root, WriteOptions(marker_form=form))

    assert marker_form(write) is form  # type: ignore[arg-type]
