"""The one store of the values used last."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random

from toolcaddie.util.bounded import Bounded, Limit


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
    store: Bounded[str, bytes] = Bounded(None, Limit(10, len))
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


def test_every_limit_holds() -> None:
    store: Bounded[str, str] = Bounded(None, Limit(10, len), Limit(2, lambda value: value.count("x")))
    store.put("a", "1234")
    store.put("b", "x")
    store.put("c", "xx")
    assert store.latest() == ["xx"]
    assert store.totals == (2, 2)
    store.put("d", "123456789")
    assert store.latest() == ["123456789"]


def test_evicted_values_are_reported_and_removed_ones_are_not() -> None:
    evicted: list[int] = []
    store: Bounded[str, int] = Bounded(1, on_eviction=evicted.append)
    store.put("a", 1)
    store.put("a", 2)
    store.put("b", 3)
    store.pop("b")
    assert evicted == [2]


def test_what_is_called_at_an_eviction_may_use_the_store() -> None:
    store: Bounded[str, int] = Bounded(1, on_eviction=lambda value: store.put("again", value) if value == 1 else None)
    store.put("a", 1)
    store.put("b", 2)
    assert list(store) == ["again"]


def test_the_first_value_under_a_key_stays_unless_it_is_put() -> None:
    store: Bounded[str, str] = Bounded(2, Limit(100, len))
    assert store.put_if_absent("a", "first") == "first"
    assert store.put_if_absent("a", "second") == "first"
    assert store.totals == (5,)
    store.put("b", "x")
    assert store.put_if_absent("c", "y") == "y"
    assert list(store) == ["b", "c"]


def test_many_threads_use_one_store() -> None:
    evictions: list[int] = []
    store: Bounded[int, int] = Bounded(16, Limit(100_000, lambda value: value), on_eviction=evictions.append)

    def work(seed: int) -> int:
        random = Random(seed)
        misses = 0
        for _ in range(3_000):
            key = random.randrange(1, 40)
            value = store.get(key)
            if value is None:
                misses += 1
                store.put_if_absent(key, key)
            else:
                assert value == key
        return misses

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))
    assert len(store) == 16
    assert store.totals == (sum(store.latest()),)
