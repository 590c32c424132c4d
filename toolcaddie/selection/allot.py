"""Places for scored candidates, as many as a budget can carry. Knows numbers, not tools or messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from toolcaddie.core.selection import DropStage

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

CHOSEN, SENT = "chosen", "sent"
Outcome = Literal["chosen", "sent"] | DropStage
OUTCOMES: tuple[Outcome, ...] = ("chosen", "sent", "quota", "max_tools", "provider_cap", "max_tokens")
_CHOSEN, _SENT, _QUOTA, _MAX_TOOLS, _CAP, _TOKENS = range(len(OUTCOMES))

MIN_QUOTA = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """Tools that might be sent, in list order: arrays of one length, except `guaranteed`, which has one value a group."""

    priority: Floats
    """Higher is served first; equals in list order."""
    group: Ints
    """0, 1, 2 ... in the order groups are served; every group has a candidate."""
    guaranteed: Bools
    """Groups that `fair` does not leave without a tool while there is room."""
    already_sent: Bools
    """Sent already: they keep their place in a quota (the category presets append new tools) and are not chosen again."""
    full: Ints
    """Tokens of the definition."""
    slim: Ints
    """Tokens of the slimmed definition; never more than `full`."""

    def __len__(self) -> int:
        return len(self.priority)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Limits left for the candidates; None: no limit."""

    count: int | None
    """Selected tools."""
    places: int | None
    """Definitions of any kind."""
    tokens: int | None
    """Tokens when everything is sent in full."""
    tokens_slim: int | None
    """Tokens when what must be sent is slimmed as well."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Allotment:
    chosen: Ints
    """Indices into the candidates, in the order they were served."""
    ranked: Ints
    """Indices of all candidates, the best first."""
    outcome: npt.NDArray[np.int8]
    """Outcome of each candidate, an index into `OUTCOMES`."""
    slimmed: bool
    """The definitions had to be slimmed."""
    quota: int | None = None


def allot(
    candidates: Candidates,
    capacity: Capacity,
    *,
    policy: Literal["proportional", "fair", "ranked"],
    redistribute: bool = False,
) -> Allotment:
    """Serves candidates by the policy until count, places or tokens run out.

    `proportional` is the policy of the category presets: max(2, count // groups) from each group, then cut at count; places
    that a small group leaves stay free, unless `redistribute`. `fair` serves the best of every guaranteed group, then the rest.
    `ranked` serves the best. Slimming comes before dropping: if the definitions do not fit in full, all are slimmed, and
    only then whatever still does not fit is passed over, so that nothing left out would fit into what is left.
    """
    ranked = np.argsort(-candidates.priority, kind="stable")
    outcome = np.full(len(candidates), _CHOSEN, dtype=np.int8)
    quota = None
    if policy == "proportional":
        quota = _quota(capacity.count, len(candidates.guaranteed))
        serving = _proportional(candidates, ranked, capacity.count, quota, redistribute, outcome)
        capacity = Capacity(
            count=None, places=capacity.places, tokens=capacity.tokens, tokens_slim=capacity.tokens_slim
        )
    elif policy == "fair":
        serving = _heads_first(candidates, ranked)
    else:
        serving = ranked
    limit, stage = _limit(capacity, len(serving))
    first = serving[:limit]
    slimmed = capacity.tokens is not None and int(candidates.full[first].sum()) > capacity.tokens
    if slimmed:
        queues = _queues(candidates, ranked) if policy == "fair" else []
        chosen = _fill(candidates, serving, queues, limit, capacity.tokens_slim or 0, stage, outcome)
    else:
        outcome[serving[limit:]] = stage
        chosen = first
    return Allotment(chosen=chosen, ranked=ranked, outcome=outcome, slimmed=slimmed, quota=quota)


def _quota(count: int | None, groups: int) -> int | None:
    return None if count is None else max(MIN_QUOTA, count // max(1, groups))


def _proportional(
    candidates: Candidates,
    ranked: Ints,
    count: int | None,
    quota: int | None,
    redistribute: bool,
    outcome: npt.NDArray[np.int8],
) -> Ints:
    members: list[list[int]] = [[] for _ in candidates.guaranteed]
    for index, group in zip(ranked.tolist(), candidates.group[ranked].tolist(), strict=True):
        members[group].append(index)
    served = [index for group in members for index in group[:quota]]
    leftover = [index for group in members for index in group[quota:]] if quota is not None else []
    if redistribute and count is not None:
        more = max(0, count - len(served))
        served, leftover = served + leftover[:more], leftover[more:]
    cut = len(served) if count is None else count
    outcome[leftover] = _QUOTA
    outcome[served[cut:]] = _MAX_TOOLS
    outcome[candidates.already_sent] = _SENT
    chosen = np.array(served[:cut], dtype=np.int64)
    return chosen[~candidates.already_sent[chosen]]


def _heads_first(candidates: Candidates, ranked: Ints) -> Ints:
    """Ranked order, but the best of every guaranteed group before all others."""
    heads = np.zeros(len(candidates.guaranteed), dtype=np.int64)
    heads[candidates.group[ranked[::-1]]] = np.arange(len(ranked))[::-1]  # of equals the last is kept: the first served
    leads = np.zeros(len(ranked), dtype=np.bool_)
    leads[heads[candidates.guaranteed]] = True
    return np.concatenate([ranked[leads], ranked[~leads]])


def _queues(candidates: Candidates, ranked: Ints) -> list[list[int]]:
    """Guaranteed groups, the one with the best member first, each with its members, the best first."""
    queues: dict[int, list[int]] = {}
    for index in ranked.tolist():
        group = int(candidates.group[index])
        if candidates.guaranteed[group]:
            queues.setdefault(group, []).append(index)
    return list(queues.values())


def _limit(capacity: Capacity, available: int) -> tuple[int, int]:
    """Returns the most that may be served, and the stage that drops the others."""
    count = available if capacity.count is None else max(0, capacity.count)
    places = available if capacity.places is None else max(0, capacity.places)
    return min(count, places, available), _CAP if places < count else _MAX_TOOLS


def _fill(
    candidates: Candidates,
    serving: Ints,
    queues: list[list[int]],
    limit: int,
    tokens: int,
    stage: int,
    outcome: npt.NDArray[np.int8],
) -> Ints:
    """Chooses the candidates that still fit, in order. Room only shrinks, so a candidate passed over once fits nowhere later."""
    sizes: list[int] = candidates.slim.tolist()
    chosen_indices: dict[int, None] = {}
    tokens_left = tokens

    def take(index: int) -> bool:
        nonlocal tokens_left
        if len(chosen_indices) >= limit or sizes[index] > tokens_left:
            return False
        chosen_indices[index] = None
        tokens_left -= sizes[index]
        return True

    for queue in queues:  # a group whose best is too long is served with its next best
        any(take(index) for index in queue)
    waiting = [index for index in serving.tolist() if index not in chosen_indices]
    smallest = min((sizes[index] for index in waiting), default=0)
    for index in waiting:
        if len(chosen_indices) >= limit or tokens_left < smallest:
            break
        if not take(index):
            outcome[index] = _TOKENS
    undecided = [index for index in waiting if index not in chosen_indices and outcome[index] == _CHOSEN]
    outcome[undecided] = stage if len(chosen_indices) >= limit else _TOKENS
    return np.array(list(chosen_indices), dtype=np.int64)
