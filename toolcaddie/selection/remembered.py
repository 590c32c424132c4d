"""A ranker's last answer, kept for the reasons that are asked right after the scores."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

from toolcaddie.ports import QueryWords

T = TypeVar("T")


class Remembered(threading.local, Generic[T]):
    """One answer a thread: a selection runs in one thread from scores to reasons, and others do not get in between."""

    def __init__(self) -> None:
        self._words: QueryWords | None = None
        self._answer: T | None = None

    def keep(self, words: QueryWords, answer: T) -> T:
        self._words, self._answer = words, answer
        return answer

    def of(self, words: QueryWords) -> T | None:
        """The answer to exactly this query, if it was the last."""
        return self._answer if self._words is words else None
