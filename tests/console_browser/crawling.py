"""Finds the pages of the console by following links, as a person would."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import parse_qsl, urldefrag, urlsplit

HOME = "/console/"
_NOT_FOLLOWED = (f"{HOME}language", f"{HOME}static/", f"{HOME}audit/export")
_OPENED = 12
"""Number of pages of one kind that are opened."""


def kind_of(path: str) -> str:
    """Returns what pages of one template have in common: their section, the number of parts of their addresses, and the names of
    the fields in them."""
    address = urlsplit(path)
    parts = address.path.removeprefix(HOME).strip("/").split("/")
    fields = sorted(name for name, _ in parse_qsl(address.query, keep_blank_values=True))
    return " ".join([parts[0], str(len(parts)), *fields])


def crawled(first: Sequence[str], links_of: Callable[[str], Sequence[str]]) -> Iterator[tuple[str, int]]:
    """Yields the address of each page, and its number among those of its kind. `links_of` opens a page, and returns the addresses
    of its links; it is called when the caller takes the next page."""
    waiting, known, numbers = deque(first), set(first), Counter[str]()
    while waiting:
        path = waiting.popleft()
        kind = kind_of(path)
        if numbers[kind] >= _OPENED:
            continue
        numbers[kind] += 1
        yield path, numbers[kind]
        for link in links_of(path):
            address = urldefrag(link)[0]
            if address.startswith(HOME) and not address.startswith(_NOT_FOLLOWED) and address not in known:
                known.add(address)
                waiting.append(address)
