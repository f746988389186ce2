"""What `import pyhudi` offers, and no more."""

from __future__ import annotations

import pydoc
import rlcompleter

import pytest

import pyhudi


def test_the_public_names_are_these() -> None:
    assert sorted(pyhudi.__all__) == [
        "HudiError",
        "Table",
        "__version__",
        "advise",
        "archive",
        "attach",
        "bins",
        "clean",
        "clean_failed_writes",
        "cluster",
        "commits",
        "compact",
        "configure",
        "delete_savepoint",
        "doctor",
        "health",
        "history",
        "last_commit",
        "on_commit",
        "put_back",
        "remove_orphans",
        "restore",
        "run_services",
        "savepoint",
        "watch_services",
        "why",
    ]


@pytest.mark.parametrize("name", pyhudi.__all__)
def test_each_is_there_and_says_what_it_does(name: str) -> None:
    found = getattr(pyhudi, name)
    if name != "__version__":
        assert found.__doc__
        assert found.__name__ == {"Table": "InspectedTable"}.get(name, name)


def test_another_name_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'vacuum'"):
        _ = pyhudi.vacuum


def test_dir_and_completion_show_the_public_names_and_nothing_else() -> None:
    public = sorted([*pyhudi.__all__, "errors"])
    assert dir(pyhudi) == public
    completer = rlcompleter.Completer({"pyhudi": pyhudi})
    found = {
        text.removeprefix("pyhudi.").rstrip("()") for text in completer.attr_matches("pyhudi.")
    }
    assert found == {name for name in public if not name.startswith("_")}


def test_help_says_what_each_function_does() -> None:
    told = pydoc.plain(pydoc.render_doc(pyhudi))
    for name in ("attach", "commits", "configure", "history", "on_commit"):
        assert f"\n    {name}(" in told
    assert "import_module" not in told
    assert "SetupError" not in told.partition("FILE")[2]
