"""The bounded cache: what was used last stays."""

from __future__ import annotations

from pyhudi.recent import Recent


def test_a_key_that_was_never_put_has_no_value() -> None:
    assert Recent[str, int](2).get("a") is None


def test_the_value_that_was_put_last_counts() -> None:
    recent = Recent[str, int](2)
    recent.put("a", 1)
    recent.put("a", 2)
    assert recent.get("a") == 2


def test_the_least_recently_used_value_is_dropped_first() -> None:
    recent = Recent[str, int](2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert recent.get("b") is None
    assert (recent.get("a"), recent.get("c")) == (1, 3)


def test_a_value_that_is_put_once_more_counts_as_used() -> None:
    recent = Recent[str, int](2)
    recent.put("a", 1)
    recent.put("b", 2)
    recent.put("a", 3)
    recent.put("c", 4)
    assert recent.get("b") is None
    assert recent.get("a") == 3


def test_values_are_dropped_once_all_weigh_too_much() -> None:
    recent = Recent[str, str](most=5)
    recent.put("a", "123", 3)
    recent.put("b", "12", 2)
    assert recent.get("a") == "123"
    recent.put("c", "1", 1)
    assert recent.get("b") is None
    assert (recent.get("a"), recent.get("c")) == ("123", "1")


def test_the_newest_value_stays_though_it_weighs_too_much_alone() -> None:
    recent = Recent[str, str](most=5)
    recent.put("a", "1", 1)
    recent.put("b", "123456", 6)
    assert (recent.get("a"), recent.get("b")) == (None, "123456")


def test_a_value_that_was_replaced_or_forgotten_weighs_nothing() -> None:
    recent = Recent[str, str](most=5)
    for value in ("1234", "123", "12"):
        recent.put("a", value, len(value))
    recent.put("b", "123", 3)
    assert (recent.get("a"), recent.get("b")) == ("12", "123")
    recent.forget(lambda key: key == "b")
    assert recent.get("b") is None
    recent.put("c", "123", 3)
    assert recent.get("a") == "12"
    recent.forget()
    assert recent.kept() == ()
