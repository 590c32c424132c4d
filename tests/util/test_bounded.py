"""The one store of the values used last."""

from __future__ import annotations

from toolcaddie.util.bounded import Bounded


def test_of_too_many_values_the_one_that_was_not_used_for_longest_goes() -> None:
    store: Bounded[str, int] = Bounded(2)
    store.put("a", 1)
    store.put("b", 2)
    assert store.get("a") == 1
    store.put("c", 3)
    assert (store.get("a"), store.get("b"), store.get("c")) == (1, None, 3)


def test_looking_without_using_saves_no_value() -> None:
    store: Bounded[str, int] = Bounded(2)
    store.put("a", 1)
    store.put("b", 2)
    assert store.peek("a") == 1
    store.put("c", 3)
    assert "a" not in store
    assert store.latest() == [3, 2]


def test_values_that_weigh_too_much_together_go_but_never_the_newest() -> None:
    store: Bounded[str, bytes] = Bounded(heaviest=10, weight=len)
    store.put("a", b"12345")
    store.put("b", b"12345")
    store.put("a", b"1")  # put again, it weighs what it weighs now
    store.put("c", b"1234")
    assert len(store) == 3
    store.put("d", b"x" * 50)
    assert store.latest() == [b"x" * 50]
    store.pop("d")
    store.put("e", b"1234567890")
    assert store.latest() == [b"1234567890"]
