"""The needs of all pages about bots: the bot and the tenant of a page, what the bot has stored, and links that keep the
tenant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from toolcaddie.app.build import Assembled
from toolcaddie.app.improving import stored_proposals
from toolcaddie.app.jobs import desk_of
from toolcaddie.app.runtimes import persona_folders
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import Author, PersonaKey
from toolcaddie.doors.console.answers import Answer, redirect
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.doors.shelves import Shelf
from toolcaddie.jobs.desk import JobDesk
from toolcaddie.personas import StoredChats, StoredPersonas
from toolcaddie.tools.improve.proposals import Proposals

PATH = f"{HOME}bots"
ONE = f"{PATH}/{{bot}}"
"""The path of the page of a bot. Its other pages and forms are one word below it."""

_LONGEST_TENANT = 200
_DONE = {
    "reverted": "The earlier version is back.",
    "forgotten": "Everything that the bot had stored about this person is erased.",
    "paused": "The job is paused.",
    "resumed": "The job follows its schedule again.",
    "asked": "The job is asked to run.",
    "applied": "Applied. Each file has a new version.",
    "rejected": "Rejected. No file has changed.",
}
"""Sentences that a page shows after an act, by the word in its address."""


class BotDesk:
    """The bots of a server, for the pages about them."""

    def __init__(self, parts: Assembled, renderer: Renderer) -> None:
        self.parts = parts
        self._renderer = renderer
        self._files = StoredPersonas(parts.documents, folders=persona_folders(parts.settings))
        self._chats = StoredChats(parts.documents)

    @property
    def settings(self) -> Settings:
        return self.parts.settings

    @property
    def jobs(self) -> JobDesk:
        return desk_of(self.settings, self.parts.database.jobs, self.parts.documents)

    @property
    def proposals(self) -> Proposals:
        return stored_proposals(self.settings, self.parts.documents)

    def shelf(self, visit: Visit) -> Shelf:
        """Returns what the bot of a page has stored, for the tenant of the page. Raises `RequestError`."""
        return self.shelf_of(self.bot(visit), tenant_of(visit))

    def shelf_of(self, bot: str, tenant: str) -> Shelf:
        key = PersonaKey(tenant=tenant, bot=bot)
        return Shelf(key=key, files=self._files, chats=self._chats, database=self.parts.database)

    def bot(self, visit: Visit) -> str:
        """Returns the name of the bot of a page. Raises `RequestError` if the settings do not have it."""
        if visit.part not in self.settings.bots:
            raise RequestError(f"there is no bot {visit.part[:64]!r}", param="bot", code="unknown_page")
        return visit.part

    def page(self, name: str, visit: Visit, data: Mapping[str, Any], **words: Any) -> Answer:
        """Returns a page about a bot. `name`: that of the template."""
        tenant, bot = tenant_of(visit), visit.part
        return self._renderer.page(
            f"bots/{name}.html",
            visit,
            {**({"bot": bot} if bot else {}), "tenant": tenant, **data},
            link=_linker(visit, bot, tenant),
            all_bots=_linker(visit, "", tenant)(),
            current=name,
            done=_DONE.get(visit.request.query.get("done", ""), ""),
            **words,
        )

    def done(self, visit: Visit, word: str, page: str, **fields: str) -> Answer:
        """Returns the answer to a form: the page to go on with, which says what was done."""
        return redirect(_linker(visit, visit.part, tenant_of(visit))(page, **fields, done=word))


def tenant_of(visit: Visit) -> str:
    """Returns the tenant whose data a page shows: the person's own, or the one that an admin of the server names. Raises
    `RequestError` if the person may not see it."""
    fields = visit.form if visit.request.method == "POST" else visit.request.query
    tenant = fields.get("tenant", "")[:_LONGEST_TENANT] or visit.person.tenant
    if visit.tenant is not None and tenant != visit.tenant:
        raise RequestError(f"you see only what belongs to the tenant {visit.tenant}", param="tenant", code="forbidden")
    return tenant


def author_of(visit: Visit) -> Author:
    """Returns the person as the author of a version."""
    return Author(who=f"{visit.person.tenant}/{visit.person.id}")


def field(visit: Visit, name: str) -> str:
    """Returns a field of the address or the form. Raises `RequestError` if it is missing."""
    fields = visit.form if visit.request.method == "POST" else visit.request.query
    value = fields.get(name, "")
    if not value:
        raise RequestError(f"{name} is missing", param=name)
    return value


def number_of(text: str, name: str) -> int:
    """Returns the number in a field. Raises `RequestError`."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise RequestError(f"{name} is not a number", param=name)
    return int(text)


def _linker(visit: Visit, bot: str, tenant: str) -> Callable[..., str]:
    """Returns a function that returns the address of a page of the bot, for the same tenant. Fields that are empty or None are
    left out."""
    own = {} if tenant == visit.person.tenant else {"tenant": tenant}

    def link(page: str = "", /, *, of: str = "", **fields: str | int | None) -> str:
        values = {name: value for name, value in fields.items() if value not in ("", None)} | own
        place = f"{PATH}/{quote(of or bot, safe='')}" if of or bot else PATH
        return place + (f"/{page}" if page else "") + (f"?{urlencode(values)}" if values else "")

    return link
