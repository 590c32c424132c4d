"""Sections of the console: each brings its routes, and its entry in the navigation."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from toolcaddie.doors.console.answers import Reply
from toolcaddie.doors.console.forms import LONGEST_FORM
from toolcaddie.doors.console.levels import Level
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRoute:
    """A page, or the target of a form. `{name}` in a path stands for one segment; the handler finds it in `Visit.part`."""

    method: Literal["GET", "POST"]
    path: str
    handle: Callable[[Visit], Awaitable[Reply]]
    is_public: bool = False
    """True: also for those who have not signed in."""
    level: Level | None = None
    """The level that it needs, if that is not the level of its section."""
    longest_form: int = LONGEST_FORM
    """The largest number of bytes of a form that a person sends who has signed in."""

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
    level: Level | None = None
    """The level that a person needs; None: its pages judge each person themselves."""
    of_server: bool = False
    """True: it shows what belongs to no tenant, so only those see it who run the server."""
    needs_bot: bool = True
    """False: nothing in it depends on the person's bot, so a person may have none although there are bots without a default."""
    needs_catalog: bool = False
    """True: it shows the catalog of the person's tenant, which is open meanwhile."""


__all__ = ["HOME", "PageRoute", "Section"]
