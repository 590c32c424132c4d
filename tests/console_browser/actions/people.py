"""People with browsers: each signs in once, and every page of theirs is watched."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, MutableSequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, Response, expect

from tests.console_browser.actions.server import FriendlyServer
from tests.console_browser.browser import opened, signed_in
from tests.console_browser.watching import Watched, watched

_LONGEST_WAIT_MS = 10_000


@dataclass(slots=True)
class People:
    """Opens pages of the people of the friendly server."""

    server: FriendlyServer
    browser: Browser
    _stack: ExitStack
    _contexts: MutableMapping[tuple[str, bool], BrowserContext] = field(default_factory=dict)
    _open: MutableSequence[Watched] = field(default_factory=list)

    def opens(self, path: str, *, who: str = "ada", script: bool = True) -> Page:
        """Opens a page of the console for a person, in a browser with or without scripts."""
        return self.watches(path, who=who, script=script).page

    def watches(self, path: str, *, who: str = "ada", script: bool = True) -> Watched:
        """Opens a page as `opens` does, and returns it with what it reports."""
        watch = self._watch(self._context(who, script))
        watch.page.goto(f"/console/{path}")
        return watch

    def stranger(self, **options: object) -> Page:
        """Opens the first page in a new browser in which nobody has signed in."""
        context = self.browser.new_context(base_url=self.server.url, **{"locale": "en", **options})  # type: ignore[arg-type]
        self._stack.callback(context.close)
        self._listen(context)
        page = self._watch(context).page
        page.goto("/console/")
        return page

    def problems(self) -> list[str]:
        """Closes all pages, and returns what they have reported."""
        reports = [f"{watch.page.url}: {each}" for watch in self._open for each in watch.take()]
        for watch in self._open:
            watch.page.close()
        self._open.clear()
        return reports

    def _context(self, who: str, script: bool) -> BrowserContext:
        if (who, script) not in self._contexts:
            key, options = self.server.keys[who], {"java_script_enabled": script}
            context = self._stack.enter_context(signed_in(self.browser, self.server.url, key, **options))
            self._listen(context)
            self._contexts[who, script] = context
        return self._contexts[who, script]

    def _listen(self, context: BrowserContext) -> None:
        context.set_default_timeout(_LONGEST_WAIT_MS)

        def note_form(response: Response) -> None:
            if response.request.method == "POST" and response.status < 400:
                self.server.sent.add(urlsplit(response.url).path)

        context.on("response", note_form)

    def _watch(self, context: BrowserContext) -> Watched:
        watch = watched(context)
        self._open.append(watch)
        return watch


@contextmanager
def gathered(program: str, server: FriendlyServer) -> Iterator[People]:
    """Starts a browser for the people of a server."""
    expect.set_options(timeout=_LONGEST_WAIT_MS)
    with opened(program) as browser, ExitStack() as stack:
        yield People(server, browser, stack)
