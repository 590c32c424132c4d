"""Server-sent events come out the same however the bytes were cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcaddie.providers.sse import EventReader


def events_of(*pieces: bytes) -> list[bytes]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.rest()


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b": keep-alive\n\ndata: a\n\n:\n\n", [b"a"]),
        (b"data: one\ndata: two\n\n", [b"one\ntwo"]),
        (b"event: error\nid: 7\ndata: a\nretry: 3\n\n", [b"a"]),
        (b"data\n\n", [b""]),
        (b"\n\n\ndata: a\n\n\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: a\n\ndata: unfinished", [b"a", b"unfinished"]),
        (b"", []),
    ],
)
def test_events_are_read_in_every_spelling_the_standard_allows(stream: bytes, events: list[bytes]) -> None:
    assert events_of(stream) == events
    assert events_of(*(bytes([byte]) for byte in stream)) == events


LINES = st.sampled_from([b"data: x", b"data:", b"data: \xc3\xa9", b": note", b"event: e", b"", b"", b"data: {}"])
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(
    st.lists(st.tuples(LINES, ENDS), max_size=20).map(lambda lines: b"".join(part for line in lines for part in line)),
    st.lists(st.integers(0, 200), max_size=10),
)
def test_cutting_a_stream_anywhere_changes_nothing(stream: bytes, cuts: list[int]) -> None:
    points = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    pieces = [stream[start:end] for start, end in pairwise(points)]
    assert events_of(*pieces) == events_of(stream)


def test_a_reader_counts_what_waits_and_what_came() -> None:
    reader = EventReader()
    assert reader.feed(b"data: a\n\ndata: b") == [b"a"]
    assert (reader.pending, reader.total) == (7, 16)
