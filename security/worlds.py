"""Random worlds: what a policy hides from a caller leaves no trace in anything that caller or model can read, and never runs.

A world has random tools, rules, roles, scopes, tags, bots and channels, and one caller. A model and an application ask for all of
its tools in every way: by exact and almost exact names, in words, from programs. Then the same is asked in a world without
the hidden tools. Both answers must be equal in every character: suggestions, reasons, counts, scores and orders too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from security.goals import Goal, none_of
from toolcaddie import Message, Principal, RunRequest, Runtime, tool
from toolcaddie.control.bots import Bot
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.approval import Approval
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.core.meta_names import EXECUTE_TOOL, GET_TOOL_SCHEMA, LIST_TOOLS, REQUEST_MORE_TOOLS, SEARCH_TOOLS
from toolcaddie.core.presets import preset
from toolcaddie.core.tool import Tool
from toolcaddie.engine.engine import Programs
from toolcaddie.programs.named import monty
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.testing import ScriptedProvider, calls, say

NAMES = (
    "freeze_member_11",
    "freeze_member_12",
    "freeze_invoice_21",
    "refund_invoice_22",
    "list_salaries_31",
    "show_31",
)
"""Similar to each other, so that a hidden tool is the best suggestion for a misspelt name; none is part of another."""
CATEGORIES = ("members", "invoices", "salaries")
CONDITIONS = (
    "resource.read_only",
    "resource.may_destroy",
    'resource.name like "freeze*"',
    'resource == Tool::"freeze_member_12"',
    'resource in Category::"members"',
    'resource has category && resource.category == "salaries"',
    'resource.tags.contains("inside")',
    'principal in Role::"admin"',
    'principal.id == "ann"',
    'principal has bot && principal.bot == "shop"',
    'principal in Tenant::"acme"',
    'principal in Channel::"mcp"',
)
META = (LIST_TOOLS, SEARCH_TOOLS, GET_TOOL_SCHEMA, EXECUTE_TOOL, REQUEST_MORE_TOOLS)
SCOPES = ("action", 'action == Action::"see"', 'action == Action::"call"', 'action == Action::"call_unasked"')


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One drawn world."""

    tools: Sequence[Mapping[str, Any]]
    """Options of `@tool`, with the name."""
    rules: Sequence[tuple[str, str, str, bool]]
    defaults: bool
    caller: Principal
    shop: Bot
    tags: Sequence[str] | None
    disabled_tools: Sequence[str]
    max_tools: int | None
    preset: str

    @property
    def policy(self) -> CedarPolicy:
        lines = (
            f"{effect} (principal, {scope}, resource) {'unless' if negated else 'when'} {{ {condition} }};"
            for effect, scope, condition, negated in self.rules
        )
        return CedarPolicy(text="\n".join(lines), defaults=self.defaults)

    def sees(self, policy: CedarPolicy, each: Tool) -> bool:
        """Returns True if the caller may see a tool: said here once more, tool by tool, without masks."""
        bot = self.shop if self.caller.bot == "shop" else Bot()
        return (
            policy.sees(self.caller, each)[0]
            and (not each.roles or self.caller.role in each.roles)
            and each.scope in ("all", self.caller.bot)
            and each.name not in (*bot.disabled_tools, *self.disabled_tools)
            and (bot.categories is None or each.category in bot.categories)
            and (self.tags is None or bool(set(self.tags) & set(each.tags)))
        )


_tools = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(NAMES),
            "category": st.sampled_from(CATEGORIES),
            "tags": st.sampled_from([(), ("inside",), ("outside",)]),
            "roles": st.sampled_from([(), (), ("admin",)]),
            "scope": st.sampled_from(["all", "all", "shop", "desk"]),
            "read_only": st.booleans(),
        }
    ),
    min_size=1,
    max_size=len(NAMES),
    unique_by=lambda options: options["name"],
)
_rules = st.tuples(
    st.sampled_from(["permit", "forbid"]), st.sampled_from(SCOPES), st.sampled_from(CONDITIONS), st.booleans()
)
worlds = st.builds(
    World,
    tools=_tools,
    rules=st.lists(_rules, max_size=4),
    defaults=st.sampled_from([True, True, True, False]),
    caller=st.builds(
        Principal,
        id=st.sampled_from(["ann", "bob"]),
        role=st.sampled_from([None, "admin", "guest"]),
        bot=st.sampled_from(["shop", "desk"]),
        tenant=st.sampled_from(["default", "acme"]),
        channel=st.sampled_from([None, "mcp", "gateway"]),
    ),
    shop=st.builds(
        Bot,
        disabled_tools=st.lists(st.sampled_from(NAMES), max_size=2, unique=True).map(tuple),
        categories=st.sampled_from([None, None, ("members",), ("invoices", "salaries")]),
    ),
    tags=st.sampled_from([None, None, ["inside"], ["inside", "outside"]]),
    disabled_tools=st.sampled_from([(), (), ("show_31",)]),
    max_tools=st.sampled_from([None, 1, 2]),
    preset=st.sampled_from(["default", "default", "compact"]),
)


@dataclass(slots=True)
class Counts:
    """What happened in all worlds."""

    worlds: int = 0
    hidden: int = 0
    leaks: int = 0
    differences: int = 0
    hidden_runs: int = 0
    visible_runs: int = 0


def attacked(*, quick: bool) -> Sequence[Goal]:
    """Asks in 10,000 worlds (quick: 300)."""
    return played(300 if quick else 10_000)


def played(number: int) -> Sequence[Goal]:
    """Asks in this number of worlds, which are the same each time, and returns the goals."""
    counts = Counts()
    with asyncio.Runner() as runner:
        interpreter = monty(workers=1)

        @seed(12)
        @settings(
            max_examples=number,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(worlds)
        def play(world: World) -> None:
            runner.run(_played(world, Programs(interpreter=interpreter, check_types=False), counts))

        play()
        runner.run(interpreter.close())
    return [
        none_of("worlds in which the name of a hidden tool was shown", counts.leaks, counts.worlds),
        none_of(
            "worlds with an answer that differs from one without the hidden tools", counts.differences, counts.worlds
        ),
        none_of("hidden tools that ran", counts.hidden_runs, counts.hidden),
        Goal(
            name="visible tools that ran, so that the attack asks for something",
            figure=f"{counts.visible_runs:,}",
            goal="at least one a world",
            met=counts.visible_runs >= counts.worlds > 0,
        ),
    ]


async def _played(world: World, programs: Programs, counts: Counts) -> None:
    policy, ran = world.policy, list[str]()
    catalog = Catalog.of(_source(world.tools, ran).tools())
    visible = {each.name for each in catalog.tools if world.sees(policy, each)}
    hidden = {each.name for each in catalog.tools} - visible
    shown = await _shown(world, world.tools, ran, programs)
    counts.worlds += 1
    counts.hidden += len(hidden)
    counts.hidden_runs += sum(name in hidden for name in ran)
    counts.visible_runs += sum(name in visible for name in ran)
    known = [options for options in world.tools if options["name"] in visible]
    without = await _shown(world, known, [], programs)
    leaked = any(name in line for name in hidden for asked, line in shown if not asked)
    counts.leaks += leaked
    counts.differences += shown != without
    if leaked or shown != without:
        line = next(((a, b) for (_, a), (_, b) in zip(shown, without, strict=False) if a != b), ("a name", ""))
        print(f"hidden {sorted(hidden)}: {_difference(*line)}")


def _difference(one: str, other: str) -> str:
    """Returns the beginning of the difference of two texts."""
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    return f"{one[max(0, at - 100) : at + 200]!r} instead of {other[max(0, at - 100) : at + 200]!r}"


class _Yes:
    """Approves every question, so that a call that asks runs as well."""

    async def approve(self, approval: Approval) -> bool:
        return True


async def _shown(
    world: World, tools: Sequence[Mapping[str, Any]], ran: list[str], programs: Programs
) -> Sequence[tuple[bool, str]]:
    """Returns everything that the caller and the model read, each with whether it answers a request that named a hidden tool
    itself."""
    names, categories = {each["name"] for each in tools}, {each["category"] for each in tools}
    shop = world.shop
    shop = replace(
        shop,
        disabled_tools=tuple(name for name in shop.disabled_tools if name in names),
        categories=None if shop.categories is None else tuple(c for c in shop.categories if c in categories),
    )
    provider = ScriptedProvider([*_script(exact=False), say("done"), *_script(exact=True), say("done")])
    chosen = preset(world.preset)
    runtime = Runtime(
        provider=provider,
        sources=[_source(tools, ran)],
        policy=world.policy,
        bots={"shop": shop, "desk": Bot()},
        default_bot="shop",
        approver=_Yes(),
        preset=replace(
            chosen,
            meta=META,
            selection=replace(chosen.selection, whole_if_it_fits=False),
            programs="always",
            limits=replace(chosen.limits, rounds=None, calls=None),
        ),
        programs=programs,
    )
    request = RunRequest(
        messages=[Message(role="user", content="freeze a member, refund the invoice, show salaries")],
        principal=world.caller,
        tags=world.tags,
        disabled_tools=[name for name in world.disabled_tools if name in names],
        max_tools=world.max_tools,
    )
    shown: list[tuple[bool, str]] = []
    async with runtime:
        await runtime.warm()
        await runtime.prepare()
        shown.append((False, repr([each.name for each in runtime.view(request)])))
        shown.append((False, _plain(runtime.select(request))))
        shown.append((False, _plain(runtime.preview(request))))
        # `explain` of an exact name is for operators: it says that a tool exists and is hidden, so it is not asked for one here.
        shown.extend((False, _plain(runtime.explain(_misspelt(name), request))) for name in NAMES)
        for exact in (False, True):
            result = await runtime.run(request)
            shown.append((exact, _plain(result.messages)))
        shown.extend(
            (index >= len(_script(exact=False)) + 1, _plain(sent)) for index, sent in enumerate(_sent(provider))
        )
        for name in NAMES:
            for exact in (False, True):
                asked = name if exact else _misspelt(name)
                shown.append((exact, await _called(runtime, asked, world)))
    return shown


def _sent(provider: ScriptedProvider) -> Sequence[Any]:
    return [(request.tools, request.messages) for request in provider.requests]


async def _called(runtime: Runtime, name: str, world: World) -> str:
    try:
        return _plain(
            await runtime.call(name, {}, principal=world.caller)
            if world.tags is None and not world.disabled_tools
            else None
        )
    except ToolcaddieError as error:
        return _plain(error)


_VARYING = re.compile(r"\b(run|call|approval|conversation)_[0-9a-f]{8,}|seconds=[0-9.e-]+")


def _plain(value: Any) -> str:
    """Returns a text of all that a value contains, without ids and times, which differ from run to run."""
    return _VARYING.sub("-", f"{value!r} {value!s}")


# --- what is asked ----------------------------------------------------------------------------------------------------


def _misspelt(name: str) -> str:
    return name[:-1]


def _script(*, exact: bool) -> Sequence[Any]:
    """Returns a model's answers that ask for every tool in every way."""
    names = [name if exact else _misspelt(name) for name in NAMES]
    lines = "\n".join(f"try:\n    print(await {name}())\nexcept Exception as e:\n    print(e)" for name in names)
    return [
        calls((LIST_TOOLS, {}), *((LIST_TOOLS, {"category": each}) for each in (*CATEGORIES, "salarie"))),
        calls(*((SEARCH_TOOLS, {"query": query}) for query in ("freeze member", "invoice", "salaries"))),
        calls(*((GET_TOOL_SCHEMA, {"tool_name": name}) for name in names)),
        calls(*((EXECUTE_TOOL, {"tool_name": name, "arguments": {}}) for name in names)),
        calls((REQUEST_MORE_TOOLS, {"categories": list(CATEGORIES), "reason": "all"})),
        calls((REQUEST_MORE_TOOLS, {"query": "list salaries and refund invoices", "reason": "all"})),
        calls(*((name, {}) for name in names)),
        *(calls(("run_program", {"code": f"print(await {name}())"})) for name in names[1:4:2]),
        calls(("run_program", {"code": lines})),
    ]


def _category(options: Mapping[str, Any]) -> str:
    """Returns what tools are sorted by. Categories are listed in the order of the whole catalog, which is no secret."""
    return str(options["category"])


def _source(tools: Sequence[Mapping[str, Any]], ran: list[str]) -> FunctionSource:
    """Returns a source whose tools note their names when they run."""

    def made(options: Mapping[str, Any]) -> Any:
        name = options["name"]

        def function() -> str:
            ran.append(name)
            return "ran"

        return tool(function, **{**options, "description": f"{name.replace('_', ' ')[:-3]} of the club"})

    return FunctionSource("club", [made(options) for options in sorted(tools, key=_category)])
