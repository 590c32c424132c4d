"""Selects scored candidates within the limits of a budget. This module works on arrays of numbers and knows neither tools nor
messages; `selector` calls it.

A group is the tools of one category. A guaranteed group is one that the request needs, because its category matched, was named,
or is a default.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from toolcaddie.core.selection import DropStage
from toolcaddie.util.replacing import replace

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

CHOSEN, SENT = "chosen", "sent"
Outcome = Literal["chosen", "sent"] | DropStage
OUTCOMES: tuple[Outcome, ...] = ("chosen", "sent", "quota", "max_tools", "provider_cap", "max_tokens")
"""The possible outcomes of a candidate: it is chosen, was sent before, or is dropped by the limit of this name."""
_CHOSEN, _SENT, _QUOTA, _MAX_TOOLS, _PROVIDER_CAP, _MAX_TOKENS = range(len(OUTCOMES))

MIN_QUOTA = 2
"""The smallest quota of a category: `proportional` takes at least this number of tools from it, if the category has them."""


class Candidates(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Tools that may be sent. All arrays have one value for each candidate, except `guaranteed`, which has one for each group."""

    priority: Floats
    """Candidates with a higher priority are served first; candidates with equal priorities in their order here."""
    group: Ints
    """Number of each candidate's group: 0, 1, 2 ... in the order in which groups are served. Every group has a candidate."""
    guaranteed: Bools
    """Flags of the groups that get at least one tool under the policy `fair`, as far as the limits allow."""
    already_sent: Bools
    """Flags of the candidates that were sent before. They count in the quota of their group, because the category presets append
    new tools to those that were sent, but they are not chosen again."""
    full: Ints
    """Tokens of each full definition."""
    slim: Ints
    """Tokens of each slimmed definition (without examples, titles and long descriptions); never more than `full`."""

    def __len__(self) -> int:
        return len(self.priority)


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """The part of each limit of a `Budget` that is left after the tools that must be sent; None: no limit."""

    max_tools: int | None
    provider_cap: int | None
    max_tokens: int | None
    """Tokens left for candidates if the tools that must be sent have full definitions."""
    max_tokens_slim: int | None
    """Tokens left for candidates if the tools that must be sent have slimmed definitions."""


class Allotment(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The selected candidates, and the outcome of every candidate."""

    selected: Ints
    """Indices of the selected candidates, in the order in which they were served."""
    ranked: Ints
    """Indices of all candidates, the best first; if only the first few were ordered, the others follow in any order."""
    outcome: npt.NDArray[np.int8]
    """Outcome of each candidate, an index into `OUTCOMES`."""
    slimmed: bool
    """True if the definitions have to be slimmed to fit."""
    quota: int | None = None
    """The number of tools that `proportional` takes from each group; None: no quota."""


def allot(
    candidates: Candidates,
    capacity: Capacity,
    *,
    policy: Literal["proportional", "fair", "ranked"],
    redistribute: bool = False,
    ordered: int | None = None,
) -> Allotment:
    """Selects candidates by the policy until a limit is reached.

    `ranked` takes the best candidates. `fair` takes the best one of every guaranteed group, then the best of the others.
    `proportional` is the policy of the category presets: it takes max(2, max_tools // groups) from each group, and then cuts the
    list at `max_tools`. Places that a small group does not use stay unused, unless `redistribute` gives them to other groups.

    If the full definitions have too many tokens, all definitions are slimmed, and only candidates that still do not fit are
    dropped. No candidate that is dropped for its tokens would fit into the tokens that remain.

    `ordered`: the number of best candidates besides the selected ones whose order is asked for; None: that of all candidates.
    Thousands of candidates are then ordered no further than needed.
    """
    is_fair = policy == "fair" and bool(candidates.guaranteed.any())
    if policy == "proportional" or is_fair or capacity.max_tokens is not None:
        ordered = None
    limit, stage = _limit(capacity, len(candidates))
    ranked = _ranked(candidates.priority, None if ordered is None else limit + ordered)
    outcome = np.full(len(candidates), _CHOSEN, dtype=np.int8)
    quota = None
    if policy == "proportional":
        quota = _quota(capacity.max_tools, len(candidates.guaranteed))
        serving = _proportional(candidates, ranked, capacity.max_tools, quota, redistribute, outcome)
        limit, stage = _limit(replace(capacity, max_tools=None), len(serving))
    elif is_fair:
        serving = _heads_first(candidates, ranked)
    else:
        serving = ranked
    first = serving[:limit]
    slimmed = capacity.max_tokens is not None and int(candidates.full[first].sum()) > capacity.max_tokens
    if slimmed:
        queues = _queues(candidates, ranked) if policy == "fair" else []
        selected = _fill(candidates, serving, queues, limit, capacity.max_tokens_slim or 0, stage, outcome)
    else:
        outcome[serving[limit:]] = stage
        selected = first
    return Allotment(selected=selected, ranked=ranked, outcome=outcome, slimmed=slimmed, quota=quota)


def _ranked(priority: Floats, ordered: int | None) -> Ints:
    """Returns the indices of all candidates, at least the first `ordered` of them the best first; None: all."""
    if ordered is None or len(priority) <= 4 * ordered:
        return np.argsort(-priority, kind="stable")
    least = np.partition(priority, len(priority) - ordered)[len(priority) - ordered]
    best = np.flatnonzero(priority >= least)
    return np.concatenate([best[np.argsort(-priority[best], kind="stable")], np.flatnonzero(priority < least)])


def _quota(max_tools: int | None, groups: int) -> int | None:
    """Returns the quota of each group under the policy `proportional`; None: there is no limit."""
    return None if max_tools is None else max(MIN_QUOTA, max_tools // max(1, groups))


def _proportional(
    candidates: Candidates,
    ranked: Ints,
    max_tools: int | None,
    quota: int | None,
    redistribute: bool,
    outcome: npt.NDArray[np.int8],
) -> Ints:
    """Returns the candidates within the quotas of their groups and within `max_tools`, without those that were sent before.
    Enters the outcome of all others into `outcome`. `ranked`: the candidates, the best first."""
    members: list[list[int]] = [[] for _ in candidates.guaranteed]
    for index, group in zip(ranked.tolist(), candidates.group[ranked].tolist(), strict=True):
        members[group].append(index)
    served = [index for group in members for index in group[:quota]]
    leftover = [index for group in members for index in group[quota:]] if quota is not None else []
    if redistribute and max_tools is not None:
        more = max(0, max_tools - len(served))
        served, leftover = served + leftover[:more], leftover[more:]
    cut = len(served) if max_tools is None else max_tools
    outcome[leftover] = _QUOTA
    outcome[served[cut:]] = _MAX_TOOLS
    outcome[candidates.already_sent] = _SENT
    within_limit = np.array(served[:cut], dtype=np.int64)
    return within_limit[~candidates.already_sent[within_limit]]


def _heads_first(candidates: Candidates, ranked: Ints) -> Ints:
    """Returns the candidates in the order in which `fair` serves them: the best one of every guaranteed group, then all others,
    both the best first."""
    heads = np.zeros(len(candidates.guaranteed), dtype=np.int64)
    # Assignment from the worst to the best, so that the best candidate of each group stays.
    heads[candidates.group[ranked[::-1]]] = np.arange(len(ranked))[::-1]
    leads = np.zeros(len(ranked), dtype=np.bool_)
    leads[heads[candidates.guaranteed]] = True
    return np.concatenate([ranked[leads], ranked[~leads]])


def _queues(candidates: Candidates, ranked: Ints) -> list[list[int]]:
    """Returns the members of each guaranteed group, the best first. Groups are in the order of their best members."""
    queues: dict[int, list[int]] = {}
    for index in ranked.tolist():
        group = int(candidates.group[index])
        if candidates.guaranteed[group]:
            queues.setdefault(group, []).append(index)
    return list(queues.values())


def _limit(capacity: Capacity, available: int) -> tuple[int, int]:
    """Returns the largest number of candidates that may be selected, and the index in `OUTCOMES` of the limit that drops
    others."""
    max_tools = available if capacity.max_tools is None else max(0, capacity.max_tools)
    provider_cap = available if capacity.provider_cap is None else max(0, capacity.provider_cap)
    return min(max_tools, provider_cap, available), _PROVIDER_CAP if provider_cap < max_tools else _MAX_TOOLS


def _fill(
    candidates: Candidates,
    serving: Ints,
    queues: list[list[int]],
    limit: int,
    max_tokens: int,
    stage: int,
    outcome: npt.NDArray[np.int8],
) -> Ints:
    """Returns the slimmed candidates that fit into `max_tokens`, in the order in which they are served.

    First each of the `queues` gets one place, then the candidates in `serving` follow. Tokens that remain never become more, so a
    candidate that does not fit is not tried again. `stage` is the outcome of candidates beyond `limit`.
    """
    sizes: list[int] = candidates.slim.tolist()
    selected: dict[int, None] = {}
    tokens_left = max_tokens

    def take(index: int) -> bool:
        nonlocal tokens_left
        if len(selected) >= limit or sizes[index] > tokens_left:
            return False
        selected[index] = None
        tokens_left -= sizes[index]
        return True

    for queue in queues:  # if the definition of the best tool of a group is too long, the next best one is taken
        any(take(index) for index in queue)
    waiting = [index for index in serving.tolist() if index not in selected]
    smallest = min((sizes[index] for index in waiting), default=0)
    for index in waiting:
        if len(selected) >= limit or tokens_left < smallest:
            break
        if not take(index):
            outcome[index] = _MAX_TOKENS
    undecided = [index for index in waiting if index not in selected and outcome[index] == _CHOSEN]
    outcome[undecided] = stage if len(selected) >= limit else _MAX_TOKENS
    return np.array(list(selected), dtype=np.int64)
