"""A page of a browser, with everything that it reports: scripts that ran, what the policy refused, and errors."""

from __future__ import annotations

from collections.abc import MutableSequence
from dataclasses import dataclass, field

from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page

_SPY = """
window.hits = 0;
window.hit = () => { window.hits += 1; };
window.refusals = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.refusals.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`);
});
"""
_HARMLESS = ("Failed to load resource: the server responded with a status of 4",)
"""Messages of a browser about the pages of errors that the tests open themselves."""


@dataclass(slots=True)
class Watched:
    """A page, and what it has reported since the last `take`."""

    page: Page
    reports: MutableSequence[str] = field(default_factory=list)

    def take(self) -> list[str]:
        """Returns everything that the open page has reported."""
        hits, refusals = self.page.evaluate("[window.hits, window.refusals]")
        found = [*self.reports, *([f"a script ran {hits} times"] if hits else []), *(refusals or [])]
        self.reports.clear()
        return found


def watched(context: BrowserContext) -> Watched:
    """Returns a new page. Reports of it begin with its first address."""
    page = context.new_page()
    page.add_init_script(_SPY)
    watch = Watched(page)

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_HARMLESS):
            watch.reports.append(f"console: {message.text[:300]}")

    def on_dialog(dialog: Dialog) -> None:
        watch.reports.append(f"dialog: {dialog.message[:300]}")
        dialog.dismiss()

    page.on("console", on_console)
    page.on("dialog", on_dialog)
    page.on("pageerror", lambda error: watch.reports.append(f"error of a script: {str(error)[:300]}"))
    page.on("popup", lambda popup: watch.reports.append(f"a window opened: {popup.url[:300]}"))
    return watch
