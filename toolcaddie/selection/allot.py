"""The selection of scored candidates within the limits of a budget. Knows numbers, not tools or messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
_CHOSEN, _SENT, _QUOTA, _MAX_TOOLS, _PROVIDER_CAP, _MAX_TOKENS = range(len(OUTCOMES))

MIN_QUOTA = 2
"""Least number of tools that `proportional` takes from a category."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """Tools that might be sent, in list order: arrays of one length, except `guaranteed`, which has one value a group."""

    priority: Floats
    """Higher is served first; equals in list order."""
    group: Ints
    """0, 1, 2 ... in the order groups are served; every group has a candidate."""
    guaranteed: Bools
    """Groups that `fair` does not leave without a tool while the limits allow one more."""
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
    """The limits of a `Budget` of the same names, less the tools that must be sent; None: no limit."""

    max_tools: int | None
    provider_cap: int | None
    max_tokens: int | None
    """Limit if the tools that must be sent are sent in full."""
    max_tokens_slim: int | None
    """Limit if they are slimmed as well."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Allotment:
    """The selected candidates, and the outcome of every candidate."""

    selected: Ints
    """Indices into the candidates, in the order they were served."""
    ranked: Ints
    """Indices of all candidates, the best first."""
    outcome: npt.NDArray[np.int8]
    """Outcome of each candidate, an index into `OUTCOMES`."""
    slimmed: bool
    """The definitions had to be slimmed."""
    quota: int | None = None
    """Tools that `proportional` takes from each category."""


def allot(
    candidates: Candidates,
    capacity: Capacity,
    *,
    policy: Literal["proportional", "fair", "ranked"],
    redistribute: bool = False,
) -> Allotment:
    """Selects candidates by the policy until a limit is reached.

    `proportional` is the policy of the category presets: max(2, max_tools // groups) from each group, then cut at `max_tools`;
    what a small group does not use stays unused, unless `redistribute`. `fair` takes the best of every guaranteed group, then
    the rest. `ranked` takes the best. Slimming comes before dropping: if the definitions do not fit in full, all are slimmed,
    and only candidates that still do not fit are skipped. No dropped candidate would fit into the tokens that remain.
    """
    ranked = np.argsort(-candidates.priority, kind="stable")
    outcome = np.full(len(candidates), _CHOSEN, dtype=np.int8)
    quota = None
    if policy == "proportional":
        quota = _quota(capacity.max_tools, len(candidates.guaranteed))
        serving = _proportional(candidates, ranked, capacity.max_tools, quota, redistribute, outcome)
        capacity = replace(capacity, max_tools=None)
    elif policy == "fair":
        serving = _heads_first(candidates, ranked)
    else:
        serving = ranked
    limit, stage = _limit(capacity, len(serving))
    first = serving[:limit]
    slimmed = capacity.max_tokens is not None and int(candidates.full[first].sum()) > capacity.max_tokens
    if slimmed:
        queues = _queues(candidates, ranked) if policy == "fair" else []
        selected = _fill(candidates, serving, queues, limit, capacity.max_tokens_slim or 0, stage, outcome)
    else:
        outcome[serving[limit:]] = stage
        selected = first
    return Allotment(selected=selected, ranked=ranked, outcome=outcome, slimmed=slimmed, quota=quota)


def _quota(max_tools: int | None, groups: int) -> int | None:
    return None if max_tools is None else max(MIN_QUOTA, max_tools // max(1, groups))


def _proportional(
    candidates: Candidates,
    ranked: Ints,
    max_tools: int | None,
    quota: int | None,
    redistribute: bool,
    outcome: npt.NDArray[np.int8],
) -> Ints:
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
    """Returns the candidates, the best first, but the best of every guaranteed group before all others."""
    heads = np.zeros(len(candidates.guaranteed), dtype=np.int64)
    heads[candidates.group[ranked[::-1]]] = np.arange(len(ranked))[::-1]  # of equals the last is kept: the first served
    leads = np.zeros(len(ranked), dtype=np.bool_)
    leads[heads[candidates.guaranteed]] = True
    return np.concatenate([ranked[leads], ranked[~leads]])


def _queues(candidates: Candidates, ranked: Ints) -> list[list[int]]:
    """Returns the members of each guaranteed group, the best first; the group with the best member is first."""
    queues: dict[int, list[int]] = {}
    for index in ranked.tolist():
        group = int(candidates.group[index])
        if candidates.guaranteed[group]:
            queues.setdefault(group, []).append(index)
    return list(queues.values())


def _limit(capacity: Capacity, available: int) -> tuple[int, int]:
    """Returns how many candidates may be selected, and the stage that drops the others."""
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
    """Returns the candidates that fit, in order. The remaining tokens only shrink, so a candidate that did not fit once never
    fits later."""
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

    for queue in queues:  # a group whose best is too long is served with its next best
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
