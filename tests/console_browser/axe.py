"""axe-core in a page whose policy lets no other script run: it works in a world of its own, as the tools of a browser do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

FILE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
_RUN = Path(__file__).with_name("violations.js").read_text("utf-8")


def violations(page: Page, *, dark: bool) -> Sequence[str]:
    """Returns what axe-core objects to in the open page."""
    page.emulate_media(color_scheme="dark" if dark else "light")
    session = page.context.new_cdp_session(page)
    try:
        frame = session.send("Page.getFrameTree")["frameTree"]["frame"]["id"]
        world = session.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "axe"})["executionContextId"]
        _evaluate(session, world, FILE.read_text("utf-8") + ";0")
        return [str(each) for each in _evaluate(session, world, f"({_RUN})()")]
    finally:
        session.detach()


def _evaluate(session: Any, world: int, expression: str) -> Any:
    options = {"expression": expression, "contextId": world, "awaitPromise": True, "returnByValue": True}
    answer = session.send("Runtime.evaluate", options)
    assert "exceptionDetails" not in answer, answer["exceptionDetails"]
    return answer["result"].get("value")
