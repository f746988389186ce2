"""The bridge's contract: what both sides write and read is what the golden files say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from pyhudi.application.runtime import Runtime
from pyhudi.errors import SetupError
from pyhudi.reads.conditions import Compare, Comparison, HasText, TextPart
from pyhudi.spark import protocol, shim_code, wire
from pyhudi.spark.endpoint import Endpoint
from pyhudi.spark.handlers import Handlers
from pyhudi.spark.protocol import QUESTIONS, Asked, QuestionEffect
from pyhudi.spark.session import _register
from pyhudi.spark.wire import decode, encode
from pyhudi.tables.column_changes import RefusedChange, Unserved
from tests.fakes import FakeClock

ROOT = Path(__file__).parents[2]
GOLDEN = {file.stem: json.loads(file.read_text()) for file in (ROOT / "tests/protocol").iterdir()}
SECRET = "a secret"


def asked(name: str, request: Any) -> tuple[Asked, Any]:
    """A request decoded as the endpoint does it."""
    found = decode(Asked, request, name)
    return found, decode(QUESTIONS[name].ask, found.ask, f"{name}.ask")


def test_every_question_has_its_golden_file() -> None:
    assert set(GOLDEN) == set(QUESTIONS)


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_request_and_its_answer_are_read_and_written_as_they_are(name: str) -> None:
    request, answer = GOLDEN[name]["request"], GOLDEN[name]["answer"]
    found, ask = asked(name, request)
    assert json.loads(encode({"place": found.place, "ask": ask})) == request
    decoded: Any = decode(QUESTIONS[name].answer, answer, name)
    assert json.loads(encode(decoded)) == answer


def places(kind: Any, value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where JSON of ``kind`` has objects with fixed keys."""
    if isinstance(wire.shape(kind), dict) and hasattr(kind, "__dataclass_fields__"):
        yield path
        for name, inner in wire.fields_of(kind).items():
            if isinstance(value[name], dict):
                for option in getattr(inner, "__args__", ()) or (inner,):
                    yield from places(option, value[name], (*path, name))


def changed(value: Any, path: tuple[Any, ...], change: Callable[[dict[str, Any]], None]) -> Any:
    copied = json.loads(json.dumps(value))
    inner = copied
    for step in path:
        inner = inner[step]
    change(inner)
    return copied


@pytest.mark.parametrize("name", GOLDEN)
def test_an_unknown_a_missing_or_a_wrong_key_is_an_error_at_once(name: str) -> None:
    request = GOLDEN[name]["request"]
    inside = [("place", *p) for p in places(protocol.Place, request["place"])]
    inside += [("ask", *p) for p in places(QUESTIONS[name].ask, request["ask"])]
    assert {("place",), ("ask",)} <= set(inside)
    for path in [(), *inside]:
        with pytest.raises(SetupError, match="has the unknown 'columns'.*have different versions"):
            asked(name, changed(request, path, lambda found: found.update(columns=[])))
        keys = list(changed({"v": request}, ("v", *path), lambda found: None)["v"])
        for key in keys if not path else ():
            with pytest.raises(SetupError, match=f"lacks '{key}'"):
                asked(name, changed(request, path, lambda found, key=key: found.pop(key)))
    for key in request["ask"]:
        with pytest.raises(SetupError, match=rf"{name}.ask lacks '{key}'"):
            asked(name, changed(request, ("ask",), lambda found, key=key: found.pop(key)))
        wrong = changed(request, ("ask",), lambda found, key=key: found.update({key: 1.5}))
        with pytest.raises(SetupError, match=rf"{name}.ask.{key} is"):
            asked(name, wrong)


@pytest.mark.parametrize(
    ("name", "key", "value", "told"),
    [
        ("plan_scan", "limit", True, "limit is bool, not int"),
        ("write", "mode", "upsert", "mode is 'upsert', which is not one of append, overwrite"),
        ("change_rows", "homes", [[0]], r"homes\[0\] has 1 values instead of 2"),
        ("change_rows", "files", [1], r"files\[0\] is int, not str"),
        ("alter_entry", "given", {"owner": None}, "given.owner is NoneType, not str"),
    ],
)
def test_a_value_of_another_type_is_named(name: str, key: str, value: Any, told: str) -> None:
    request = changed(GOLDEN[name]["request"], ("ask",), lambda found: found.update({key: value}))
    with pytest.raises(SetupError, match=told):
        asked(name, request)


def kinds(value: Any) -> set[str]:
    """The classes that are named anywhere in JSON."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    named = {value["kind"]} if isinstance(value, dict) and "kind" in value else set()
    return named.union(*map(kinds, inside))


def test_the_golden_files_have_each_filter_literal_and_change_of_a_column() -> None:
    classes = {part.__name__ for each in shim_code.SUMS.values() for part in wire.members(each)}
    assert kinds([file["request"] for file in GOLDEN.values()]) == classes
    filters = asked("decide", GOLDEN["decide"]["request"])[1].filters
    changes = asked("alter_columns", GOLDEN["alter_columns"]["request"])[1].changes
    assert {each.by for each in filters if isinstance(each, Compare)} == {*Comparison}
    assert {each.part for each in filters if isinstance(each, HasText)} == {*TextPart}
    assert {each.of for each in changes if isinstance(each, RefusedChange)} == {*Unserved}


MON = {"kind": "Compare", "by": "=", "column": "day", "value": {"kind": "Text", "value": "mon"}}
NOTE = {"kind": "DropColumn", "column": ["note"]}


@pytest.mark.parametrize(
    ("name", "key", "value", "told"),
    [
        ("decide", "filters", [{**MON, "kind": "Like"}], "kind is 'Like', which is not one of Co"),
        ("decide", "filters", [{"column": "day"}], "kind is None, which is not one of Compare"),
        ("decide", "filters", [{**MON, "type": "string"}], r"\[0\] has the unknown 'type'"),
        ("decide", "filters", [{"kind": "Compare"}], r"\[0\] lacks 'by'"),
        ("decide", "filters", [{**MON, "by": "eq"}], "by is 'eq', which is not one of =, <=>"),
        ("decide", "filters", [{**MON, "value": "mon"}], "value is str, not dict"),
        ("decide", "filters", [{**MON, "value": NOTE}], "value.kind is 'DropColumn', which is"),
        ("decide", "filters", [MON["value"]], "kind is 'Text', which is not one of Compa"),
        ("decide", "filters", [{"kind": "Not", "child": {}}], "child.kind is None, which is"),
        ("decide", "filters", [{"kind": "AllOf", "filters": [MON, 1]}], r"filters\[1\] is int"),
        ("alter_columns", "changes", [{**NOTE, "column": "note"}], "column is str, not list"),
        ("alter_columns", "changes", [{**NOTE, "to": "x"}], "has the unknown 'to'"),
        ("alter_columns", "changes", [{**NOTE, "kind": "AddColumn"}], "lacks 'nullable'"),
    ],
)
def test_a_filter_or_a_change_that_does_not_fit_is_named(
    name: str, key: str, value: Any, told: str
) -> None:
    request = changed(GOLDEN[name]["request"], ("ask",), lambda found: found.update({key: value}))
    with pytest.raises(SetupError, match=told):
        asked(name, request)


def test_every_question_has_one_who_answers_it() -> None:
    absent = cast(Any, None)
    runtime = Runtime(FakeClock(), absent, absent, absent, absent)
    assert set(Handlers(absent, runtime).table()) == set(QUESTIONS)


def test_a_request_that_does_not_fit_reaches_no_handler() -> None:
    reached: list[Any] = []
    endpoint = Endpoint(SECRET, {"exists": lambda *asked: reached.append(asked)})
    request = changed(GOLDEN["exists"]["request"], ("ask",), lambda found: found.update(x=1))
    told = json.loads(endpoint.call(SECRET, "exists", json.dumps(request)))["error"]
    assert told["kind"] == "SetupError"
    assert "exists.ask has the unknown 'x'" in told["message"]
    assert reached == []


def test_the_shim_has_the_version_and_the_list_of_today() -> None:
    file = ROOT / "jvm-shim/src/main/scala/io/pyhudi/Protocol.scala"
    assert file.read_text() == shim_code.scala(), "run make protocol"


def test_what_commits_is_never_asked_again() -> None:
    for question in QUESTIONS.values():
        assert (
            question.answer is not protocol.CommitAnswer
            or question.effect is QuestionEffect.CHANGES
        )


def test_a_field_of_another_type_makes_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    other = dict(QUESTIONS, exists=protocol.Question(protocol.Nothing, str, QuestionEffect.LOOKS))
    monkeypatch.setattr(protocol, "QUESTIONS", other)
    assert protocol._version() != protocol.VERSION


class Jar:
    """What a jar registers with, of some version."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.registered: list[Any] = []

    def protocol(self) -> str:
        return self.version

    def register(self, *what: Any) -> None:
        self.registered.append(what)


def test_a_jar_of_another_version_is_refused_before_it_asks_anything() -> None:
    jar, endpoint = Jar("0123456789ab"), Endpoint(SECRET, {})
    with pytest.raises(SetupError, match="The jar has version 0123456789ab") as refused:
        _register(jar, endpoint, SECRET)
    assert protocol.VERSION in str(refused.value)
    assert jar.registered == []
    same = Jar(protocol.VERSION)
    _register(same, endpoint, SECRET)
    assert same.registered == [(endpoint, SECRET, protocol.VERSION)]
