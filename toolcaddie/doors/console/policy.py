"""The section of the policy: its rules with line numbers, their check, the decision about a call and why, and other rules tried
on the calls of the past. Nothing here changes the policy."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolcaddie.app.build import Assembled
from toolcaddie.app.runtimes import bots_of
from toolcaddie.app.settings import PartSettings, Settings
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.control.policy.cedar.explaining import Explanation, Replay, explained
from toolcaddie.control.policy.cedar.statements import Statement
from toolcaddie.control.visibility import Visibility
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.doors.console.answers import Answer
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.doors.console.sections import PageRoute, Section
from toolcaddie.doors.policy_sheets import cedar, checked_caller, problems_of_rules, replayed
from toolcaddie.util.replacing import replace
from toolcaddie.util.suggest import close_names

PATH = f"{HOME}policy"
_MOST_RUNS = 1_000
_LONGEST_TEXT = 48_000
_FIELDS = ("person", "tool", "arguments", "role", "bot", "tenant", "channel", "taint", "effects")


def policy_section(parts: Assembled) -> Section:
    """Returns the section. The rules are those of all tenants, so only those see it who run the server."""
    return Section(
        title="Policy",
        path=PATH,
        routes=lambda renderer: _PolicyPages(parts, renderer).routes,
        level="viewer",
        of_server=True,
    )


class _PolicyPages:
    def __init__(self, parts: Assembled, renderer: Renderer) -> None:
        self._parts = parts
        self._renderer = renderer
        self._bots = bots_of(parts.settings)
        self._visibility = Visibility(self._bots)
        self._trying = asyncio.Lock()
        """One trial at a time, so that they leave the processor to requests."""

    @property
    def routes(self) -> Sequence[PageRoute]:
        return (
            PageRoute(method="GET", path=PATH, handle=self._show),
            PageRoute(method="GET", path=f"{PATH}/check", handle=self._check),
            PageRoute(method="GET", path=f"{PATH}/explain", handle=self._explain),
            PageRoute(method="GET", path=f"{PATH}/try", handle=self._show_trial, level="operator"),
            PageRoute(method="POST", path=f"{PATH}/try", handle=self._try, level="operator"),
        )

    async def _show(self, visit: Visit) -> Answer:
        policy = self._policy
        rules = [{"id": rule.id, "place": rule.place, "text": rule.text} for rule in policy.rules]
        return self._renderer.page(
            "policy/rules.html",
            visit,
            {"rules": rules, "version": policy.version},
            lines=[_numbered(rule) for rule in policy.rules],
            path=PATH,
        )

    async def _check(self, visit: Visit) -> Answer:
        problems = await self._problems(self._parts.settings, self._policy)
        data = {"problems": problems, "rules": len(self._policy.rules), "tools": len(self._catalog)}
        return self._renderer.page("policy/check.html", visit, data, path=PATH)

    async def _explain(self, visit: Visit) -> Answer:
        query = {name: value.strip() for name, value in visit.request.query.items() if value.strip()}
        words = {name: query.get(name, "") for name in _FIELDS}
        explanation: Explanation | None = None
        problem = ""
        if "person" in query or "tool" in query:
            try:
                explanation = self._explanation(query)
            except RequestError as error:
                if visit.request.wants_json:
                    raise
                problem = str(error)
        return self._renderer.page(
            "policy/explain.html",
            visit,
            {"explanation": explanation},
            status=400 if problem else 200,
            places={rule.id: rule.place for rule in self._policy.rules},
            words=words,
            problem=problem,
            path=PATH,
        )

    def _explanation(self, query: Mapping[str, str]) -> Explanation:
        if not query.get("person"):
            raise RequestError("name the person who calls", param="person")
        caller = Principal(
            id=query["person"],
            role=query.get("role"),
            bot=query.get("bot"),
            tenant=query.get("tenant", "default"),
            channel=query.get("channel"),
        )
        who = self._bots.identified(checked_caller(caller))
        catalog, name = self._catalog, query.get("tool", "")
        tool = catalog.get(name)
        if tool is None:
            close = close_names(name, [other.name for other in catalog])
            advice = f"; did you mean {', '.join(close)}?" if close else ""
            raise RequestError(f"there is no tool {name[:80]!r}{advice}", param="tool")
        arguments = _arguments(query.get("arguments", "{}"))
        taint, effects = _words(query.get("taint", "")), _lines(query.get("effects", ""))
        return explained(self._policy, self._visibility, tool, who, arguments, taint, effects)

    async def _show_trial(self, visit: Visit) -> Answer:
        files = [] if self._parts.settings.policy is None else self._parts.settings.policy.config.get("files", ())
        own = "\n\n".join(rule.text for rule in self._policy.rules if _is_in(rule, files))
        return self._trial(visit, own)

    async def _try(self, visit: Visit) -> Answer:
        text = visit.form.get("text", "")
        if len(text) > _LONGEST_TEXT:
            raise RequestError(
                f"the rules are longer than {_LONGEST_TEXT:,} characters; `toolcaddie policy try FILE` takes them"
            )
        settings = _with_text(self._parts.settings, text)
        try:
            config = {} if settings.policy is None else dict(settings.policy.config)
            policy = await asyncio.to_thread(lambda: CedarPolicy(**config))
        except (ConfigError, TypeError) as error:
            if visit.request.wants_json:
                raise RequestError(str(error), param="text") from error
            return self._trial(visit, text, problem=str(error))
        async with self._trying:
            problems = await self._problems(settings, policy)
            result = await replayed(
                self._parts.event_log,
                policy,
                self._visibility,
                self._catalog,
                most=_MOST_RUNS,
                tenant=visit.tenant,
            )
        return self._trial(visit, text, result=result, problems=problems)

    def _trial(
        self, visit: Visit, text: str, *, result: Replay | None = None, problems: Sequence[str] = (), problem: str = ""
    ) -> Answer:
        return self._renderer.page(
            "policy/try.html",
            visit,
            {"result": result, "problems": problems, "text": text},
            status=400 if problem else 200,
            problem=problem,
            most=_MOST_RUNS,
            longest=_LONGEST_TEXT,
            path=PATH,
        )

    async def _problems(self, settings: Settings, policy: CedarPolicy) -> Sequence[str]:
        keys = await self._parts.keys.list()
        return await asyncio.to_thread(problems_of_rules, settings, policy, self._catalog, keys)

    @property
    def _policy(self) -> CedarPolicy:
        """The policy that judges now. Raises `ConfigError` for one that is not in Cedar."""
        return cedar(self._parts.runtime.policy, self._parts.settings)

    @property
    def _catalog(self) -> Catalog:
        return self._parts.runtime.source.snapshot()


def _with_text(settings: Settings, text: str) -> Settings:
    """Returns the settings with a text in place of the files of rules."""
    config: dict[str, Any] = {} if settings.policy is None else dict(settings.policy.config)
    return replace(settings, policy=PartSettings(type="cedar", config={**config, "files": [], "text": text}))


def _is_in(rule: Statement, files: Sequence[object]) -> bool:
    """Returns True if a rule was written in one of these files, or in the text of the settings."""
    name = rule.place.rpartition(":")[0]
    return name in [*map(str, files), "policy"]


def _numbered(rule: Statement) -> Sequence[tuple[int, str]]:
    """Returns the lines of a rule with their numbers in its file."""
    first = rule.place.rpartition(":")[2]
    return list(enumerate(rule.text.split("\n"), start=int(first) if first.isdecimal() else 1))


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise RequestError(f"write the arguments as a JSON object: {error}", param="arguments") from error


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())
