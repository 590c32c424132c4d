"""Sections of the console: each brings its routes, and its entry in the navigation."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from toolcaddie.doors.console.answers import Answer
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRoute:
    """A page, or the target of a form. `{name}` in a path stands for one segment; the handler finds it in `Visit.part`."""

    method: Literal["GET", "POST"]
    path: str
    handle: Callable[[Visit], Awaitable[Answer]]
    is_public: bool = False
    """True: also for those who have not signed in."""

    def part_of(self, path: str) -> str | None:
        """Returns the text at the place of `{name}`; None: this is not the route of the path."""
        before, _, after = self.path.partition("{")
        if not after:
            return "" if path == self.path else None
        pattern = f"{re.escape(before)}([^/]+){re.escape(after.partition('}')[2])}"
        match = re.fullmatch(pattern, path)
        return match[1] if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the console."""

    title: str
    """Its name in the navigation; empty: it is not there."""
    path: str
    """The path of its first page."""
    routes: Callable[[Renderer], Sequence[PageRoute]]
    """Returns its pages, which are made with this renderer."""


__all__ = ["HOME", "PageRoute", "Section"]
