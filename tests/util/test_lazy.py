"""Lazy sequences: their items are made once, when they are first read."""

from __future__ import annotations

import copy
import pickle

from toolcaddie.util.lazy import LazySequence


def test_items_are_made_once_when_the_sequence_is_first_read():
    made: list[str] = []

    def make() -> list[str]:
        made.append("made")
        return ["a", "b"]

    sequence = LazySequence(make)
    assert made == []
    assert (len(sequence), sequence[0], sequence[1:], list(sequence)) == (2, "a", ("b",), ["a", "b"])
    assert made == ["made"]


def test_it_equals_a_tuple_or_list_of_the_same_items_and_prints_as_one():
    sequence = LazySequence(lambda: "ab")
    assert sequence == ("a", "b") == sequence
    assert sequence == ["a", "b"]
    assert sequence == LazySequence(lambda: ["a", "b"])
    assert sequence != ("a",)
    assert sequence != "ab"
    assert {sequence: 1}["a", "b"] == 1
    assert repr(sequence) == "('a', 'b')"


def test_a_copy_is_a_tuple():
    sequence = LazySequence(lambda: "ab")
    assert pickle.loads(pickle.dumps(sequence)) == ("a", "b")
    assert isinstance(copy.deepcopy(sequence), tuple)
