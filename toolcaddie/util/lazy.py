"""Sequences whose items are made when somebody first reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, overload

T = TypeVar("T")


class LazySequence(Sequence[T]):
    """A sequence of the items that `make` returns, which is called when the sequence is first read, by any thread.

    It equals a tuple or list of the same items, and is copied and pickled as a tuple. Two threads that read it at the same time
    may both call `make`, so `make` must always return the same items.
    """

    __slots__ = ("_items", "_make")

    def __init__(self, make: Callable[[], Iterable[T]]) -> None:
        self._make: Callable[[], Iterable[T]] | None = make
        self._items: tuple[T, ...] = ()

    def _read(self) -> tuple[T, ...]:
        make = self._make
        if make is not None:
            self._items = tuple(make())
            self._make = None  # last, and what it holds is freed
        return self._items

    def __len__(self) -> int:
        return len(self._read())

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        return self._read()[place]

    def __iter__(self) -> Iterator[T]:
        return iter(self._read())

    def __eq__(self, other: object) -> bool:
        return self._read() == tuple(other) if isinstance(other, tuple | list | LazySequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._read())

    def __repr__(self) -> str:
        return repr(self._read())

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._read(),)
