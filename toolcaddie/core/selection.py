"""The query of a request, the number of tools it may carry, and the tools chosen and left out, with their reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.message import Message, Usage
from toolcaddie.core.numbers import Count, PartialShare, Positive
from toolcaddie.core.tool import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much a request may carry."""

    max_tools: Count | None = 24
    """Selected tools; core and meta tools are outside it. None: no limit."""
    provider_cap: Positive | None = 128
    """Everything sent. None: the provider takes any number."""
    max_tokens: Positive | None = None
    """Tokens of everything sent, by `schema.estimate_tokens` of the definitions. None: no limit."""
    policy: Literal["proportional", "fair", "ranked"] = "fair"
    redistribute: bool = False
    """With `proportional`: a second pass gives unused slots to categories that have more."""
    reserve_tools: Count = 16
    """Places of the cap kept for later additions where `request_more_tools` is offered."""
    reserve_tokens: PartialShare = 0.25
    """Share of `max_tokens` kept for the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionQuery:
    """What tools are wanted for.

    The words come from the window of `messages`, or are `text` alone (a reveal's query). `categories` given: no matching,
    these are taken. `exclude` holds names that are sent already.
    """

    messages: Sequence[Message] = ()
    text: str | None = None
    categories: Sequence[str] | None = None
    suggested: Sequence[str] = ()
    """Categories that a first stage named: each counts as if one of its keywords had just been said."""
    pinned: Sequence[str] = ()
    """Names chosen whatever they score (a tool the caller forces)."""
    essential: Mapping[str, str] = field(default_factory=dict)
    """Names always chosen, outside `max_tools`, each with its reason."""
    exclude: frozenset[str] = frozenset()
    fixed_count: int = 0
    """Places of the cap already taken (meta tools, earlier additions)."""
    fixed_tokens: int = 0
    expandable: bool = False
    """`request_more_tools` is offered: keep the budget's reserve free."""
    principal: Principal | None = None
    """Who asks, for what was learned of them; None: nobody in particular."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWords:
    """A query as rankers read it: each message of the window by itself, newest first, with its weight."""

    messages: tuple[tuple[str, float], ...]
    """What the user said."""
    replies: tuple[tuple[str, float], ...] = ()
    """What the assistant said in between."""
    called: tuple[str, ...] = ()
    """Names of tools called lately."""
    principal: Principal | None = None
    """Who asks; None: nobody in particular."""


class SelectedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A chosen tool, why, and whether its schema had to be slimmed to fit."""

    tool: Tool
    score: float = 0.0
    reasons: tuple[str, ...] = ()
    slim: bool = False
    core: bool = False


DropStage = Literal["hidden", "floor", "no_match", "max_tools", "quota", "provider_cap", "max_tokens"]


class DroppedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool left out, and the stage and number that lost."""

    name: str
    stage: DropStage
    detail: str = ""
    score: float = 0.0


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The tools chosen for a request, core first, and the ones left out."""

    tools: tuple[SelectedTool, ...] = ()
    dropped: tuple[DroppedTool, ...] = ()
    categories: tuple[str, ...] = ()
    """Categories that gave tools: matched, then related, or the defaults."""
    matched: tuple[str, ...] = ()
    """Of these, the ones a keyword hit or a caller named."""
    no_match: bool = False
    """Nothing fitted the request; what is here are defaults or core tools."""
    starved: tuple[str, ...] = ()
    """Matched categories that got no tool because the budget ran out."""
    catalog_size: int = 0
    """Visible tools."""
    tokens_all: int = 0
    tokens_selected: int = 0
    seconds: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(chosen.tool.name for chosen in self.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """What a first stage said a conversation is about."""

    categories: tuple[str, ...] = ()
    """Visible ones, the most important first. Empty: no tool is needed, or, where it failed, nothing is known."""
    how: Literal["asked", "kept", "failed"] = "asked"
    """`kept`: the message goes on with what the turn before was about, and nobody was asked."""
    detail: str = ""
    model: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0
