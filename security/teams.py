"""Lets bots with random tools ask each other in random ways, with models that try everything, and looks for what went too far.

Each tree begins with a request of a person to one bot. In every round each model makes random calls (`security.team_worlds`):
tools that it was offered or was not, other bots, jobs, and reviews of its own files. The jobs run afterwards, as they run in the
product, and may make further ones. What may happen is worked out here from the settings of the bots alone.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from security.goals import Goal, none_of
from security.team_host import Host, hosting
from security.team_trees import Counter, Reach, Tree, close_budget, judged, reach_of_job
from security.team_worlds import (
    POOL,
    REVIEW_TOOLS,
    UNTRUSTED,
    World,
    allowed,
    wanted,
    wanted_by_reviewer,
    world,
)
from toolcaddie.control.answers import SameAnswer
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.bots import MAX_DEPTH
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ProviderError, RunError
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.personas import SOUL, Author, PersonaKey
from toolcaddie.core.presets import preset
from toolcaddie.core.run import RunContext
from toolcaddie.jobs.desk import JobDesk
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.storage.database import Database
from toolcaddie.testing import calls, say
from toolcaddie.testing.script import Reply
from toolcaddie.tools.cron import cron
from toolcaddie.tools.improve import improve
from toolcaddie.util.replacing import replace

TOKENS = 110
"""Tokens of each scripted answer."""
_MOST_JOBS = 4
"""The largest number of jobs of a tree that run."""
_SECRET = "the code of the safe is 4711"
_SOUL = "I am kind.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What many trees share: the database of jobs, and a file that no reviewer may reach."""

    desk: JobDesk
    secret: Path


@asynccontextmanager
async def ground() -> AsyncIterator[Ground]:
    """Yields a database in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="toolcaddie-teams-") as folder:
        secret = Path(folder) / "safe" / "secret.txt"
        secret.parent.mkdir()
        secret.write_text(_SECRET)
        async with Database(f"sqlite:///{folder}/jobs.sqlite") as database:
            yield Ground(desk=JobDesk(rows=database.jobs, store=database.store, zone="UTC"), secret=secret)


async def grown(seed: int, on: Ground) -> Tree:
    """Returns what happened in the tree of this number."""
    chance = random.Random(seed)
    drawn, tree = world(chance), Tree()
    options = {"policy": None, "approver": SameAnswer(approved=True)} if drawn.asks else {"policy": AllowAll()}
    counter = Counter(tree)
    async with hosting(
        drawn.bots,
        lambda bot, request: _answer(chance, drawn, tree, bot, request, on.secret),
        [_pool(tree)],
        team_settings={"target_tools": drawn.target_tools, "rounds": 100, "visible_turns": 100},
        jobs=on.desk,
        more=lambda parts: [cron(parts=parts), improve(parts=parts)],
        review_trail=counter,
        preset=replace(preset(drawn.preset), limits=drawn.limits),
        programs="monty" if chance.random() < 0.1 else None,
        sinks=[counter],
        **options,
    ) as host:
        for name in drawn.bots:
            await host.personas.write(_key(name), SOUL, _SOUL, author=Author(who="import"), expected=0)
        root, bot = f"root{seed}", next(iter(drawn.bots))
        tree.reaches[root] = Reach(line=(bot,), tools=allowed(drawn.bots[bot], "conversation"))
        with suppress(RunError, ProviderError):  # a run that reached a limit, or whose model failed
            await host.ask(bot, "Do whatever you like.", run_id=root, injected={"_chatId": "club:7"})
        await host.queue.idle()
        close_budget(tree, drawn, host.bots.works, root)
        await _run_jobs(tree, drawn, host, on.desk)
        souls = [await host.personas.read(_key(name), SOUL) for name in drawn.bots]
    tree.outside += sum(soul is None or soul.text != _SOUL for soul in souls)
    tree.outside += on.secret.read_text() != _SECRET or len(list(on.secret.parent.iterdir())) > 1
    return judged(tree)


async def _run_jobs(tree: Tree, drawn: World, host: Host, desk: JobDesk) -> None:
    """Runs the jobs of the tree, also those that jobs make, and removes them."""
    while jobs := await desk.list():
        for job in jobs:
            await desk.remove(job.id)
            if tree.jobs == _MOST_JOBS:
                continue
            tree.jobs += 1
            run = f"job:{job.id}:{round((job.next or 0.0) * 1000)}"
            tree.reaches[run] = reach_of_job(tree, drawn, job)
            await host.run_job(job)
            close_budget(tree, drawn, host.bots.works, run)


def _pool(tree: Tree) -> FunctionSource:
    """Returns the tools of the host, which only note that they ran."""

    def made(name: str) -> Callable[..., Any]:
        async def run(context: RunContext) -> str:
            tree.ran.append((context.run_id, name))
            return f"{name} ran"

        return tool(run, name=name, description=f"Does {name}.", untrusted=name in UNTRUSTED, category="team")

    return FunctionSource("pool", [made(name) for name in POOL], claims=POOL)


def _answer(chance: random.Random, drawn: World, tree: Tree, bot: str, request: ModelRequest, secret: Path) -> Reply:
    """Returns the answer of a model: random calls, or its last words. `bot` is empty for a reviewer."""
    if drawn.limits.tokens is not None and tree.answers * TOKENS >= drawn.limits.tokens:
        tree.late_requests += 1
    offered = [str(each["function"]["name"]) for each in request.tools]
    if not bot:
        tree.reviews += len(request.messages) == 2
        tree.outside += _SECRET in str(request.messages) or not {*offered} <= {*REVIEW_TOOLS}
    if chance.random() < 0.01:
        raise ProviderError("the model is down")
    tree.answers += 1
    if chance.random() < 0.08 or len(request.messages) > 40:
        return say("that is all")
    count = chance.randint(1, 3)
    if not bot:
        return calls(*[wanted_by_reviewer(chance, drawn, str(secret)) for _ in range(count)])
    return calls(*[wanted(chance, drawn, offered) for _ in range(count)])


def _key(bot: str) -> PersonaKey:
    return PersonaKey(tenant=Principal().tenant, bot=bot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """The sums over many trees."""

    trees: int
    runs: int
    """Bots that others asked."""
    jobs: int
    reviews: int
    ran: int
    widest: int
    """Bots of the longest line."""
    goals: Sequence[Goal]


async def forest(count: int, *, first: int = 0) -> Forest:
    """Returns the sums over this number of trees."""
    async with ground() as on:
        trees = [await grown(seed, on) for seed in range(first, first + count)]

    def total(name: str) -> int:
        return sum(getattr(tree, name) for tree in trees)

    ran, runs = sum(len(tree.ran) for tree in trees), total("works")
    return Forest(
        trees=count,
        runs=runs,
        jobs=total("jobs"),
        reviews=total("reviews"),
        ran=ran,
        widest=max(len(reach.line) for tree in trees for reach in tree.reaches.values()),
        goals=[
            none_of("tools beyond those of all bots of the line", total("beyond"), ran),
            none_of("exec at or below the therapist, who has none", total("of_therapist"), ran),
            none_of("requests or jobs with more calls than each may make", total("over_calls"), count + total("jobs")),
            none_of("requests to a model without tokens", total("late_requests"), count + total("jobs")),
            none_of(f"bots below {MAX_DEPTH} others", total("deep"), runs),
            none_of("bots below themselves, or not below who asked them", total("cycles"), runs),
            none_of("reviewers that reached more than the copy", total("outside"), total("reviews")),
        ],
    )


def grow(count: int) -> Forest:
    """Returns the same for callers without an event loop."""
    return asyncio.run(forest(count))
