"""A person without a mouse: what the key Tab reaches on a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Page

_FOLDER = Path(__file__).parent
_REACHABLE = (_FOLDER / "reachable.js").read_text("utf-8")
_FOCUSED = (_FOLDER / "focused.js").read_text("utf-8")
_MOST_KEYS = 2_000
"""Number of times that the key is pressed at most, on a page where the focus never comes back to its beginning."""


def unreachable(page: Page) -> Sequence[str]:
    """Returns what the keyboard does not reach on the open page, or reaches without showing it. It opens details first."""
    problems = _walk(page, opens=True)
    return problems or _walk(page, opens=False)


def _walk(page: Page, *, opens: bool) -> Sequence[str]:
    missing: dict[str, str] = page.evaluate(_REACHABLE)
    reached, unseen, last = set[str](), [], ""
    for _ in range(_MOST_KEYS):
        page.keyboard.press("Tab")
        focus = page.evaluate(_FOCUSED)
        if focus is None:  # the focus has left the page, and comes back at its beginning
            continue
        if focus["number"] == last:  # the next part of a date
            continue
        last = focus["number"]
        if last in reached:
            break
        reached.add(last)
        missing.pop(last, None)
        if not focus["seen"]:
            unseen.append(f"focus cannot be seen: {focus['name']}")
        if opens and focus["name"].startswith("summary "):
            page.keyboard.press("Enter")
    return [*(f"Tab does not reach: {name}" for name in missing.values()), *unseen]
