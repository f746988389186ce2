from __future__ import annotations

import pytest

from docs.generate import FOLDER, PAGES
from pyhudi import config, errors


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_is_what_the_code_says(name: str) -> None:
    page = (FOLDER / name).read_text(encoding="utf-8")
    assert page == PAGES[name](), f"run `make docs` and commit docs/{name}"


def test_every_option_is_on_the_options_page() -> None:
    page = PAGES["options.md"]()
    for row in (*config.WRITE_TABLE, *config.READ_TABLE):
        assert all(f"`{key}`" in page for key in row.keys)
        assert row.why in page


def test_every_error_is_on_the_errors_page_and_in_the_tree() -> None:
    page = PAGES["errors.md"]()
    classes = [v for v in vars(errors).values() if isinstance(v, type) and v.__doc__]
    for cls in classes:
        if issubclass(cls, errors.HudiError):
            assert f"[{cls.code()}]" in page
            assert cls.__name__ in page.split("```text")[1]
