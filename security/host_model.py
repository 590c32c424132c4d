"""The hostile model, the rules under which it calls the tools of a host, and what came of its cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from security.host_calls import Case
from security.host_facts import changed, facts
from security.host_world import CANARY, LISTED, World
from toolcaddie import Runtime
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.approval import Approval
from toolcaddie.parts import Parts
from toolcaddie.ports import Policy, Sandbox
from toolcaddie.registry import Registry
from toolcaddie.sandbox.plain import Plain
from toolcaddie.sandbox.wall import Wall
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, calls, say

Rules = Literal["shipped", "listed", "everything"]
"""The rules that ship, with a person who approves nothing; listed effects only, with the same person; everything is allowed, with
a person who approves everything."""

_LISTED = """
permit (principal, action == Action::"see", resource);
permit (principal, action in [Action::"call", Action::"call_unasked"], resource) when {{ resource.read_only }};
permit (principal, action in [Action::"call", Action::"call_unasked"], resource)
when {{ !context.effects.isEmpty() && [{effects}].containsAll(context.effects) }};
permit (principal, action in [Action::"call", Action::"call_unasked"], resource == Tool::"execute_tool");
"""
_PRESETS = ("multibot", "compact")
"""All tools at once, and five meta tools."""


@dataclass(slots=True, kw_only=True)
class Person:
    """Whoever is asked gives the same answer to everything."""

    agrees: bool
    questions: int = 0

    async def approve(self, approval: Approval) -> bool:
        self.questions += 1
        return self.agrees


@dataclass(slots=True, kw_only=True)
class Counts:
    """What came of some cases."""

    cases: int = 0
    calls: int = 0
    questions: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    damage: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    """Cases in whose results there was a text from outside of the roots."""


class Model:
    """Makes the calls of a case, one turn after another, by their names or through `execute_tool`."""

    def __init__(self) -> None:
        self.case = Case(kind="", turns=())
        self.calls = 0
        self.through_meta = False

    def answer(self, request: Any) -> Any:
        answers = sum(message.role == "assistant" for message in request.messages)
        results = [message.text for message in request.messages if message.role == "tool"]
        if answers >= len(self.case.turns) or not (made := self.case.turns[answers](results)):
            return say("done")
        self.calls += len(made)
        return calls(*(self._wrapped(*each) for each in made))

    def _wrapped(self, tool: str, arguments: Any) -> tuple[str, Any]:
        if self.through_meta and tool != "execute_tool":
            return "execute_tool", {"tool_name": tool, "arguments": arguments}
        return tool, arguments


class Play:
    """A machine, its tools under one set of rules, and a model that obeys every case."""

    def __init__(self, world: World, model: Model, runtimes: dict[tuple[bool, str], Runtime], person: Person) -> None:
        self._world = world
        self._model = model
        self._runtimes = runtimes
        self._person = person

    async def case(self, case: Case, number: int) -> bool:
        """Plays a case. Returns True if a text from outside of the roots was in a result."""
        preset = _PRESETS[number % len(_PRESETS)]
        self._world.note(case.note or f"Case {number}: call the tool at once.")
        self._model.case, self._model.through_meta = case, preset == "compact"
        result = await self._runtimes[case.walled, preset].run("Go on.")
        return any(CANARY in message.text for message in result.messages)

    async def effects(self, case: Case, number: int) -> tuple[Sequence[str], Sequence[str]]:
        """Plays a case. Returns what has changed, and what of it listed effects may not change."""
        before = facts(self._world)
        await self.case(case, number)
        after = facts(self._world)
        return changed(before, after), changed(before, after, listed=True)

    async def cases(self, given: Sequence[Case], *, together: int, listed: bool) -> Counts:
        """Plays the cases, and looks at the machine after each so many. `listed`: listed effects are no damage."""
        counts = Counts(cases=len(given), kinds=Counter(case.kind for case in given))
        calls, questions = self._model.calls, self._person.questions
        before = facts(self._world)
        for first in range(0, len(given), together):
            group = [*enumerate(given)][first : first + together]
            for number, case in group:
                if await self.case(case, number):
                    counts.leaks.append(f"{case.kind} (case {number})")
            after = facts(self._world)
            if names := changed(before, after, listed=listed):
                where = dict.fromkeys(f"{case.kind} (case {number})" for number, case in group)
                counts.damage.append(f"{', '.join(where)[:300]}: {', '.join(names[:5])}")
            before = after
        for line in (*counts.damage, *counts.leaks):
            print(f"  damage: {line}", flush=True)
        counts.calls, counts.questions = self._model.calls - calls, self._person.questions - questions
        return counts


@asynccontextmanager
async def opened(world: World, rules: Rules) -> AsyncIterator[Play]:
    """Yields the play under these rules."""
    model, person = Model(), Person(agrees=rules == "everything")
    runtimes: dict[tuple[bool, str], Runtime] = {}
    async with AsyncExitStack() as stack:
        for box in (Wall(), Plain()):
            stack.push_async_callback(box.close)
            source = Registry().make("source", "host", world.settings, _parts(box))
            for preset in _PRESETS:
                runtime = Runtime(
                    provider=ScriptedProvider(model.answer),
                    sources=[source],
                    policy=_policy(rules),
                    approver=person,
                    preset=preset,
                )
                runtimes[box.holds, preset] = await stack.enter_async_context(runtime)
        yield Play(world, model, runtimes, person)


def _parts(box: Sandbox) -> Parts:
    return Parts(store=MemoryStore(), sandbox=lambda: box)


def _policy(rules: Rules) -> Policy:
    match rules:
        case "shipped":
            return CedarPolicy()
        case "listed":
            names = sorted({name for effect in LISTED for name in (effect, effect.partition(" ")[0])})
            return CedarPolicy(text=_LISTED.format(effects=", ".join(f'"{name}"' for name in names)), defaults=False)
        case "everything":
            return AllowAll()
