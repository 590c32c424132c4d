"""Lets bots with random tools ask each other in random ways, with models that try everything, and looks for what went too far.

Each tree begins with a request of a person to one bot. In every round each model makes random calls: tools that it was offered or
was not, the wrapper `execute_tool`, programs, and all routes to other bots, itself and bots that do not exist. What
may happen is worked out here from the settings of the bots alone.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from security.goals import Goal, none_of
from security.team_host import hosting
from toolcaddie.control.answers import SameAnswer
from toolcaddie.control.bots import Bot, ModeTools
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.bots import GROUP_OF, GROUPS, MAX_DEPTH, BotWork, Mode
from toolcaddie.core.errors import ProviderError, RunError
from toolcaddie.core.events import CallFinished, RunEvent
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.presets import preset
from toolcaddie.core.run import Limits, RunContext
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import calls, say
from toolcaddie.testing.script import Reply
from toolcaddie.util.replacing import replace

TOKENS = 110
"""Tokens of each scripted answer."""
_EVERY_GROUP = tuple(GROUPS)
_POOL = ("exec", "file_write", "web_fetch", "get_datetime", "book_room", "read_meter", "send_mail", "look_up")
"""The tools of the host; the first four have groups."""
_UNTRUSTED = ("web_fetch", "look_up")
_STRANGERS = ("nobody", "Root", "")
_NOT_RUN = ("limit", "not_run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A way from one bot to another."""

    name: str
    call: Callable[[str, str], tuple[str, dict[str, Any]]]
    """Takes the bot and a message, and returns a tool and its arguments."""
    passes_tools: bool
    """True: the other bot has the tools that both may use; False: none."""


ROUTES = (
    Route(
        name="delegate",
        call=lambda bot, message: ("delegate_to_bot", {"targetBotId": bot, "message": message}),
        passes_tools=False,
    ),
    Route(
        name="collaborate",
        call=lambda bot, message: ("collaborate", {"action": "send", "targetBotId": bot, "message": message}),
        passes_tools=True,
    ),
    Route(
        name="visible",
        call=lambda bot, message: (
            "collaborate",
            {"action": "send", "targetBotId": bot, "message": message, "visible": True},
        ),
        passes_tools=True,
    ),
)
"""All ways from one bot to another. The message of a call begins with the name of its route."""


@dataclass(slots=True, kw_only=True)
class Tree:
    """What happened in one tree of runs."""

    ran: list[tuple[str, str]] = field(default_factory=list)
    """Tools of the host that ran: the id of the run, and the name."""
    answers: int = 0
    """Answers of the model."""
    late_requests: int = 0
    """Requests to the model after all tokens were used."""
    finished: int = 0
    """Calls that ran."""
    works: Sequence[BotWork] = ()
    beyond: int = 0
    """Tools that ran and that some bot above, or the bot itself, does not have."""
    over_calls: int = 0
    deep: int = 0
    cycles: int = 0
    widest: int = 0
    """Bots of the longest line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The settings of a tree, drawn by chance."""

    bots: Mapping[str, Bot]
    limits: Limits
    preset: str
    asks: bool
    """True: the shipped rules hold, and a person approves everything; False: everything is allowed."""
    target_tools: bool


def world(chance: random.Random) -> World:
    """Returns random settings."""
    names = [f"bot{number}" for number in range(chance.randint(2, 7))]
    return World(
        bots={name: _bot(chance) for name in names},
        limits=Limits(
            rounds=chance.choice([5, 10]),
            calls=chance.choice([3, 6, 12, 30]),
            tokens=chance.choice([None, None, 800, 4_000]),
            seconds=60.0,
        ),
        preset=chance.choice(["default", "multibot", "compact"]),
        asks=chance.random() < 0.3,
        target_tools=chance.random() < 0.9,
    )


def _bot(chance: random.Random) -> Bot:
    def some(names: Sequence[str], share: float) -> tuple[str, ...]:
        return tuple(name for name in names if chance.random() < share)

    team = ("delegation", "collaboration")
    groups = None if chance.random() < 0.4 else (*some([each for each in GROUPS if each not in team], 0.7), *team)
    within = None if chance.random() < 0.2 else (*some([each for each in GROUPS if each not in team], 0.7), *team)
    return Bot(
        groups=groups,
        disabled_tools=some(_POOL, 0.3),
        modes={"collaboration": ModeTools(groups=within, disabled_tools=some(_POOL, 0.2))},
    )


def allowed(bot: Bot, mode: Mode) -> frozenset[str]:
    """Returns the tools of the host that a bot may use in a mode, by its settings alone."""
    rules = bot.modes.get(mode, ModeTools())
    names = set(_POOL) - set(bot.disabled_tools) - set(rules.disabled_tools)
    for groups in (bot.groups, rules.groups):
        if groups is not None:
            names = {name for name in names if GROUP_OF.get(name) is None or GROUP_OF[name] in groups}
    return frozenset(names)


async def grown(seed: int) -> Tree:
    """Returns what happened in the tree of this number."""
    chance = random.Random(seed)
    drawn, tree = world(chance), Tree()
    kept = preset(drawn.preset)
    options = {"policy": None, "approver": SameAnswer(approved=True)} if drawn.asks else {"policy": AllowAll()}
    async with hosting(
        drawn.bots,
        lambda bot, request: _answer(chance, drawn, tree, request),
        [_pool(tree)],
        team_settings={"target_tools": drawn.target_tools, "rounds": 100, "visible_turns": 100},
        preset=replace(kept, limits=drawn.limits),
        programs="monty" if chance.random() < 0.1 else None,
        sinks=[_Counter(tree)],
        **options,
    ) as host:
        root = f"root{seed}"
        bot = next(iter(drawn.bots))
        with suppress(RunError, ProviderError):  # a run that reached a limit, or whose model failed
            await host.ask(bot, "Do whatever you like.", run_id=root, injected={"_chatId": "club:7"})
        tree.works = host.bots.works
    return _judged(tree, drawn, root, bot)


class _Counter:
    """Counts the calls that ran, in all runs."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    async def emit(self, event: RunEvent) -> None:
        if isinstance(event, CallFinished) and event.result.error not in _NOT_RUN:
            self._tree.finished += 1


def _pool(tree: Tree) -> FunctionSource:
    """Returns the tools of the host, which only note that they ran."""

    def made(name: str) -> Callable[..., Any]:
        async def run(context: RunContext) -> str:
            tree.ran.append((context.run_id, name))
            return f"{name} ran"

        return tool(run, name=name, description=f"Does {name}.", untrusted=name in _UNTRUSTED, category="team")

    return FunctionSource("pool", [made(name) for name in _POOL], claims=_POOL)


def _answer(chance: random.Random, drawn: World, tree: Tree, request: ModelRequest) -> Reply:
    """Returns the answer of a model: random calls, or its last words."""
    if drawn.limits.tokens is not None and tree.answers * TOKENS >= drawn.limits.tokens:
        tree.late_requests += 1
    if chance.random() < 0.01:
        raise ProviderError("the model is down")
    tree.answers += 1
    if chance.random() < 0.08 or len(request.messages) > 40:
        return say("that is all")
    wanted = [_wanted(chance, drawn) for _ in range(chance.randint(1, 3))]
    offered = json.dumps(list(request.tools))
    return calls(*[_wrapped(chance, each, offered) for each in wanted])


def _wanted(chance: random.Random, drawn: World) -> tuple[str, dict[str, Any]]:
    """Returns a call of a tool, offered or not, or a call to another bot, known or not."""
    if chance.random() < 0.45:
        return chance.choice(_POOL), {}
    route = chance.choice(ROUTES)
    bot = chance.choice([*drawn.bots, *drawn.bots, *drawn.bots, *_STRANGERS])
    return route.call(bot, f"{route.name}: go on")


def _wrapped(chance: random.Random, wanted: tuple[str, dict[str, Any]], offered: str) -> tuple[str, dict[str, Any]]:
    """Returns the call as it is, through `execute_tool`, or in a program where the model has programs."""
    name, arguments = wanted
    if '"run_program"' in offered and chance.random() < 0.5:
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        return "run_program", {"code": f"print(await {name}({given}))"}
    if chance.random() < (0.8 if '"execute_tool"' in offered else 0.1):
        return "execute_tool", {"name": name, "arguments": json.dumps(arguments)}
    return wanted


def _judged(tree: Tree, drawn: World, root: str, first: str) -> Tree:
    """Compares what happened with what may happen."""
    works = {work.id: work for work in tree.works}
    for run, name in tree.ran:
        work = works.get(run.partition(".")[0])
        line = (first,) if work is None else (*work.inherited.lineage, str(work.principal.bot))
        tree.beyond += name not in _common(drawn, line, None if work is None else _route(work))
    calls_limit = drawn.limits.calls
    tree.over_calls = 0 if calls_limit is None else max(0, tree.finished - calls_limit)
    tree.deep = sum(len(work.inherited.lineage) > MAX_DEPTH for work in tree.works)
    tree.cycles = sum(work.principal.bot in work.inherited.lineage for work in tree.works)
    tree.widest = max((len(work.inherited.lineage) + 1 for work in tree.works), default=1)
    return tree


def _common(drawn: World, line: Sequence[str], route: Route | None) -> frozenset[str]:
    """Returns the tools that all bots of a line have: the first in a conversation, the others in a collaboration."""
    if route is not None and not (route.passes_tools and drawn.target_tools):
        return frozenset()
    sets = [allowed(drawn.bots[name], "collaboration" if place else "conversation") for place, name in enumerate(line)]
    return frozenset.intersection(*sets)


def _route(work: BotWork) -> Route:
    """Returns the route of a piece of work, which its message names."""
    text = str(work.message).partition(": ")[2]
    return next(route for route in ROUTES if text.startswith(route.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """The sums over many trees."""

    trees: int
    runs: int
    ran: int
    widest: int
    goals: Sequence[Goal]


async def forest(count: int, *, first: int = 0) -> Forest:
    """Returns the sums over this number of trees."""
    trees = [await grown(seed) for seed in range(first, first + count)]
    ran, runs = sum(len(tree.ran) for tree in trees), sum(len(tree.works) for tree in trees)
    return Forest(
        trees=count,
        runs=runs,
        ran=ran,
        widest=max(tree.widest for tree in trees),
        goals=[
            none_of("tools beyond those of all bots of the line", sum(tree.beyond for tree in trees), ran),
            none_of(
                "trees with more calls than the first request may make",
                sum(tree.over_calls > 0 for tree in trees),
                count,
            ),
            none_of("trees that asked a model without tokens", sum(tree.late_requests > 0 for tree in trees), count),
            none_of(f"bots below {MAX_DEPTH} others", sum(tree.deep for tree in trees), runs),
            none_of("bots below themselves", sum(tree.cycles for tree in trees), runs),
        ],
    )


def grow(count: int) -> Forest:
    """Returns the same for callers without an event loop."""
    return asyncio.run(forest(count))
