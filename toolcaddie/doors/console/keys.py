"""The section of API keys: what each may do and has used, its limits, new keys, and their end.

Only an admin of the server sees it, so nobody makes a key for more than what the person may do. The secret of a new key is on one
page, the answer to the form that makes it: it is in no address, in no record, and nobody can show it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from toolcaddie.app.settings import Settings
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.key_limits import BILLION, LIMIT_NAMES, KeyLimits
from toolcaddie.core.storage import ApiKey
from toolcaddie.doors.console.answers import Answer, redirect
from toolcaddie.doors.console.forms import FieldProblem, problem_at
from toolcaddie.doors.console.levels import Levels
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.doors.console.sections import PageRoute, Section
from toolcaddie.doors.key_sheets import (
    DEFAULT,
    changed_limits,
    dollars_text,
    key_json,
    last_days,
    limit_in,
    limits_text,
)
from toolcaddie.ports import KeyMeter, KeyStore
from toolcaddie.storage.figures import Figures, KeyFigure

PATH = f"{HOME}keys"
_DAYS = 30
_DONE = {
    "limited": "The limits have changed. The gateway has them within a second.",
    "revoked": "Revoked. The gateway refuses it within a second.",
}
"""Sentences that a page shows after an act, by the word in its address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyParts:
    """Objects that the section needs."""

    keys: KeyStore
    meter: KeyMeter
    figures: Figures
    settings: Settings
    limits: Callable[[], KeyLimits]
    """Limits of the settings that were read last."""


def keys_section(parts: KeyParts) -> Section:
    """Returns the section."""
    return Section(
        title="Keys",
        path=PATH,
        routes=lambda renderer: _Keys(parts, renderer).routes,
        level="admin",
        of_server=True,
    )


class _Keys:
    def __init__(self, parts: KeyParts, renderer: Renderer) -> None:
        self._parts = parts
        self._renderer = renderer
        self._levels = Levels(parts.settings.console)

    @property
    def routes(self) -> Sequence[PageRoute]:
        one = f"{PATH}/{{id}}"
        return (
            PageRoute(method="GET", path=PATH, handle=self._list),
            PageRoute(method="POST", path=f"{PATH}/add", handle=self._add),
            PageRoute(method="GET", path=one, handle=self._show),
            PageRoute(method="POST", path=f"{one}/limit", handle=self._limit),
            PageRoute(method="POST", path=f"{one}/revoke", handle=self._revoke),
        )

    async def _list(self, visit: Visit, *, problem: str = "") -> Answer:
        """Returns the list with the form for a new key; `problem`: the reason why a form that was sent has made none."""
        keys = await self._parts.keys.list()
        first, last = last_days(_DAYS)
        totals = {each.key_id: _total(each) for each in await self._parts.figures.keys(first, last, None)}
        data = {"keys": [{**self._shown(key), "used": totals.get(key.id, _Total())} for key in keys], "days": _DAYS}
        return self._renderer.page(
            "keys/list.html",
            visit,
            data,
            path=PATH,
            limit_names=LIMIT_NAMES,
            bots=sorted(self._parts.settings.bots),
            roles=self._roles,
            status=400 if problem else 200,
            problem=problem,
            form=visit.form,
            done=_DONE.get(visit.request.query.get("done", ""), ""),
        )

    async def _show(self, visit: Visit, *, problem: FieldProblem | None = None) -> Answer:
        """Returns the page of a key. `problem`: the reason why a form that was sent has changed nothing."""
        key = await self._key(visit.part)
        first, last = last_days(_DAYS)
        usage = await self._parts.meter.usage(first=first, last=last, key_id=key.id)
        return self._renderer.page(
            "keys/key.html",
            visit,
            {"key": self._shown(key), "usage": usage, "days": _DAYS},
            rows=[(row, dollars_text(row)) for row in reversed(usage)],
            own={name: _limit_field(key, name) for name in LIMIT_NAMES} | (_sent_limits(visit) if problem else {}),
            status=400 if problem else 200,
            problem=problem,
            is_in_use=_is_own(visit, key),
            path=PATH,
            done=_DONE.get(visit.request.query.get("done", ""), ""),
        )

    async def _add(self, visit: Visit) -> Answer:
        try:
            key, secret = await self._added(visit)
        except RequestError as error:
            if visit.request.wants_json:
                raise
            return await self._list(visit, problem=str(error))
        return self._renderer.page(
            "keys/added.html", visit, {"key": self._shown(key), "secret": secret}, status=201, path=PATH
        )

    async def _added(self, visit: Visit) -> tuple[ApiKey, str]:
        """Makes the key that a form describes, and returns it with its secret. Raises `RequestError`."""
        form = {name: value.strip() for name, value in visit.form.items()}
        name, role, bot = form.get("name", ""), form.get("role", "") or None, form.get("bot", "") or None
        bots = self._parts.settings.bots
        if bots and bot is not None and bot not in bots:
            raise RequestError(f"there is no bot {bot[:80]!r}; the bots are {', '.join(sorted(bots))}", param="bot")
        if not await self._parts.keys.any() and self._levels.of_role(role) != "admin":
            raise RequestError(
                "this would be the first key, and after it nobody could make another one here: give it the role "
                f"{' or '.join(map(repr, self._parts.settings.console.admins))}",
                param="role",
            )
        principal = Principal(id=name, role=role, bot=bot)
        limits = changed_limits({}, _limits_in(form))
        return await self._parts.keys.add(name, principal, limits=limits)

    async def _limit(self, visit: Visit) -> Answer:
        key = await self._key(visit.part)
        try:
            limits = changed_limits(key.limits, _limits_in(_sent_limits(visit)))
        except RequestError as error:
            return await self._show(visit, problem=problem_at(visit, error, LIMIT_NAMES))
        await self._parts.keys.limit(key.id, limits)
        return redirect(f"{_path_of(key)}?done=limited")

    async def _revoke(self, visit: Visit) -> Answer:
        key = await self._key(visit.part)
        if _is_own(visit, key):
            raise RequestError("you have signed in with this key; sign in with another one to revoke it", param="key")
        await self._parts.keys.revoke(key.id)
        return redirect(f"{_path_of(key)}?done=revoked")

    @property
    def _roles(self) -> Sequence[str]:
        """Roles that give a level in the console, for the form."""
        console = self._parts.settings.console
        return list(dict.fromkeys([*console.viewers, *console.operators, *console.admins, *self._parts.settings.roles]))

    async def _key(self, key_id: str) -> ApiKey:
        key = await self._parts.keys.find(key_id)
        if key is None:
            raise RequestError(f"there is no key {key_id[:80]!r}", param="key", code="unknown_page")
        return key

    def _shown(self, key: ApiKey) -> Mapping[str, object]:
        defaults = self._parts.limits()
        return {
            **key_json(key, defaults),
            "limits_text": limits_text(defaults.with_own(key.limits)),
            "level": self._levels.of_role(key.principal.role),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Total:
    requests: int = 0
    tokens: int = 0
    dollars: float = 0.0


def _total(figure: KeyFigure) -> _Total:
    return _Total(
        requests=figure.requests,
        tokens=figure.input_tokens + figure.output_tokens,
        dollars=figure.money / BILLION,
    )


def _sent_limits(visit: Visit) -> dict[str, str]:
    """Returns the fields of limits of the form that was sent."""
    return {name: visit.form[name].strip() for name in LIMIT_NAMES if name in visit.form}


def _limits_in(form: Mapping[str, str]) -> Mapping[str, object]:
    """Returns the limits of a form; None: the form does not have this one. An empty field is the limit of the settings."""
    return {name: limit_in(form[name] or DEFAULT, name) if name in form else None for name in LIMIT_NAMES}


def _limit_field(key: ApiKey, name: str) -> str:
    """Returns a limit as a person writes it into the form; empty: that of the settings."""
    if name not in key.limits:
        return ""
    value = key.limits[name]
    return "none" if value is None else f"{value:.15g}"


def _is_own(visit: Visit, key: ApiKey) -> bool:
    return visit.session is not None and visit.session.key_id == key.id


def _path_of(key: ApiKey) -> str:
    return f"{PATH}/{quote(key.id, safe='')}"
