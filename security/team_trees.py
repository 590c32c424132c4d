"""What happened in one tree of runs, and the comparison with what may happen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from security.team_worlds import ROUTES, THERAPIST, World, allowed
from toolcaddie.core.bots import MAX_DEPTH, BotWork
from toolcaddie.core.events import CallFinished, RunEvent
from toolcaddie.core.jobs import Job

_NOT_RUN = ("limit", "not_run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a run may use by the settings alone."""

    line: tuple[str, ...]
    """The bots above the run, and its own."""
    tools: frozenset[str]


@dataclass(slots=True, kw_only=True)
class Tree:
    """What happened in one tree of runs."""

    reaches: dict[str, Reach] = field(default_factory=dict)
    """By the id of the run."""
    ran: list[tuple[str, str]] = field(default_factory=list)
    """Tools of the host that ran: the id of the run, and the name."""
    makers: dict[str, str] = field(default_factory=dict)
    """The run that made a job, by the id of the job."""
    works: int = 0
    """Bots that were asked by others."""
    jobs: int = 0
    reviews: int = 0
    answers: int = 0
    """Answers of the model below the request of the person, or below the job, that runs."""
    finished: int = 0
    """Calls that ran below it."""
    late_requests: int = 0
    """Requests to the model after all tokens were used."""
    beyond: int = 0
    """Tools that ran and that some bot above, or the bot itself, does not have."""
    of_therapist: int = 0
    """Times that `exec` ran at or below the therapist."""
    over_calls: int = 0
    deep: int = 0
    cycles: int = 0
    outside: int = 0
    """What a reviewer reached outside of its copy."""


class Counter:
    """Counts the calls that ran, in all runs, and notes which run made a job."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    async def emit(self, event: RunEvent) -> None:
        if not isinstance(event, CallFinished) or event.result.error in _NOT_RUN:
            return
        self._tree.finished += 1
        values = event.result.structured
        if isinstance(values, dict) and "jobId" in values:
            self._tree.makers[values["jobId"]] = event.run_id.partition(".")[0]


def reach_of_job(tree: Tree, drawn: World, job: Job) -> Reach:
    """Returns what a job may use: what the run that made it may, in an autonomous run of the same bot."""
    maker, bot = tree.reaches[tree.makers[job.id]], str(job.owner.bot)
    return Reach(line=maker.line, tools=maker.tools & allowed(drawn.bots[bot], "autonomous"))


def close_budget(tree: Tree, drawn: World, works: Sequence[BotWork], root: str) -> None:
    """Judges what ran below a request of a person, or below a job, and notes what each asked bot may use."""
    limit = drawn.limits.calls
    tree.over_calls += limit is not None and tree.finished > limit
    tree.answers = tree.finished = 0
    above = tree.reaches[root]
    for work in works[tree.works :]:
        line = (*work.inherited.lineage, str(work.principal.bot))
        below = line[len(above.line) :]
        tree.deep += len(work.inherited.lineage) > MAX_DEPTH
        tree.cycles += len(set(line)) < len(line) or line[: len(above.line)] != above.line
        route = next(route for route in ROUTES if str(work.message).partition(": ")[2].startswith(route.name))
        sets = [allowed(drawn.bots[name], "collaboration") for name in below]
        passes = route.passes_tools and drawn.target_tools
        tree.reaches[work.id] = Reach(
            line=line, tools=frozenset.intersection(above.tools, *sets) if passes else frozenset()
        )
    tree.works = len(works)


def judged(tree: Tree) -> Tree:
    """Compares the tools that ran with those that may."""
    nothing = Reach(line=(), tools=frozenset())
    for run, name in tree.ran:
        reach = tree.reaches.get(run.partition(".")[0], nothing)
        tree.beyond += name not in reach.tools
        tree.of_therapist += name == "exec" and THERAPIST in reach.line
    return tree
