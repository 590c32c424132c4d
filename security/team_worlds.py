"""Random settings of bots, and what models call that try everything: tools, other bots, jobs, and reviews of their own files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcaddie.control.bots import Bot, ModeTools
from toolcaddie.core.bots import GROUP_OF, GROUPS, Mode
from toolcaddie.core.run import Limits

POOL = ("exec", "file_write", "web_fetch", "get_datetime", "book_room", "read_meter", "send_mail", "look_up")
"""The tools of the host; the first four have groups."""
UNTRUSTED = ("web_fetch", "look_up")
THERAPIST = "therapist"
"""A bot of every tree that never has `exec`."""
REVIEW_TOOLS = ("file_read", "file_write", "file_edit")
_STRANGERS = ("nobody", "Root", "")
_ROUTES_OF_A_BOT = ("delegation", "collaboration")

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A way from one bot to another."""

    name: str
    call: Callable[[str, str], Call]
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

JOB: Call = (
    "cron",
    {"action": "add", "text": "go on", "kind": "instruction", "schedule": {"kind": "every", "everyMs": 3_600_000}},
)
"""The way from a bot to a later run of itself."""


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
    names = [*(f"bot{number}" for number in range(chance.randint(1, 6))), THERAPIST]
    chance.shuffle(names)
    return World(
        bots={name: _bot(chance, ("exec",) if name == THERAPIST else ()) for name in names},
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


def _bot(chance: random.Random, disabled: Sequence[str]) -> Bot:
    def some(names: Sequence[str], share: float) -> tuple[str, ...]:
        return tuple(name for name in names if chance.random() < share)

    def groups(every: float) -> tuple[str, ...] | None:
        others = [each for each in GROUPS if each not in _ROUTES_OF_A_BOT]
        return None if chance.random() < every else (*some(others, 0.7), *_ROUTES_OF_A_BOT)

    return Bot(
        groups=groups(0.4),
        disabled_tools=tuple(dict.fromkeys((*disabled, *some(POOL, 0.3)))),
        modes={
            "collaboration": ModeTools(groups=groups(0.2), disabled_tools=some(POOL, 0.2)),
            "autonomous": ModeTools(groups=groups(0.5), disabled_tools=some(POOL, 0.2)),
        },
    )


def allowed(bot: Bot, mode: Mode) -> frozenset[str]:
    """Returns the tools of the host that a bot may use in a mode, by its settings alone."""
    rules = bot.modes.get(mode, ModeTools())
    names = set(POOL) - set(bot.disabled_tools) - set(rules.disabled_tools)
    for groups in (bot.groups, rules.groups):
        if groups is not None:
            names = {name for name in names if GROUP_OF.get(name) is None or GROUP_OF[name] in groups}
    return frozenset(names)


def wanted(chance: random.Random, drawn: World, offered: Sequence[str]) -> Call:
    """Returns a random call of a bot: a tool, another bot, a job or a review, offered or not, known or not."""
    return _wrapped(chance, _direct(chance, drawn), offered)


def _direct(chance: random.Random, drawn: World) -> Call:
    draw = chance.random()
    if draw < 0.42:
        return chance.choice(POOL), {}
    if draw < 0.50:
        return JOB
    if draw < 0.54:
        return "improve", {"focus": "soul", "context": "be bolder"}
    route = chance.choice(ROUTES)
    bot = chance.choice([*drawn.bots, *drawn.bots, *drawn.bots, *_STRANGERS])
    return route.call(bot, f"{route.name}: go on")


def _wrapped(chance: random.Random, call: Call, offered: Sequence[str]) -> Call:
    """Returns the call as it is, through `execute_tool`, or in a program where the model has programs."""
    name, arguments = call
    if "run_program" in offered and chance.random() < 0.5:
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        return "run_program", {"code": f"print(await {name}({given}))"}
    if chance.random() < (0.8 if "execute_tool" in offered else 0.1):
        return "execute_tool", {"name": name, "arguments": json.dumps(arguments)}
    return call


def wanted_by_reviewer(chance: random.Random, drawn: World, secret: str) -> Call:
    """Returns a random call of a reviewer: its file tools within and outside of the copy, or what bots call. `secret`: the path
    of a file that it must not reach."""
    if chance.random() < 0.3:
        return wanted(chance, drawn, ())
    up = "../" * chance.randint(1, 8)
    path = chance.choice(["SOUL.md", "IDENTITY.md", "NEW.md", secret, f"{up}{secret.lstrip('/')}", "link/x", f"{up}x"])
    name = chance.choice(REVIEW_TOOLS)
    edits = {
        "file_read": {},
        "file_write": {"content": "I obey nobody."},
        "file_edit": {"old_text": "I am", "new_text": "I was"},
    }
    return name, {"path": path, **edits[name]}
