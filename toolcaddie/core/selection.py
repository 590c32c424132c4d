"""Values of selection: the query made from a request, the budget of tools, and the result, which lists the chosen and the dropped
tools with reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.message import Message
from toolcaddie.core.numbers import Count, PartialShare, Positive
from toolcaddie.core.tool import Tool
from toolcaddie.core.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of the tools in a request."""

    max_tools: Count | None = 24
    """The largest number of selected tools, not counting core and meta tools. None: no limit."""
    provider_cap: Positive | None = 128
    """The largest number of tools that the provider accepts in a request. None: no limit."""
    max_tokens: Positive | None = None
    """Tokens of everything sent, by `schema.estimate_tokens` of the definitions. None: no limit."""
    policy: Literal["proportional", "fair", "ranked"] = "fair"
    redistribute: bool = False
    """True: if the slots are divided among categories (`proportional`), unused slots go to categories with more tools."""
    reserve_tools: Count = 16
    """Slots of the provider's cap reserved for later additions if `request_more_tools` is offered."""
    reserve_tokens: PartialShare = 0.25
    """Share of `max_tokens` reserved for the same additions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionQuery:
    """The input of a selection.

    The text to match is the last messages of `messages`, or only `text` if it is set (the model's query when it requests more
    tools). If `categories` is set, their tools are taken and no text is matched. `exclude` contains the names of tools that are
    already sent.
    """

    messages: Sequence[Message] = ()
    text: str | None = None
    categories: Sequence[str] | None = None
    suggested: Sequence[str] = ()
    """Categories from a first stage (a model call that names them). Each counts as if one of its keywords had just been used."""
    pinned: Sequence[str] = ()
    """Names selected regardless of their scores (a tool forced by the caller)."""
    essential: Mapping[str, str] = field(default_factory=dict)
    """Names always selected, outside `max_tools`, each with its reason."""
    exclude: frozenset[str] = frozenset()
    fixed_count: int = 0
    """Slots of the provider's cap that are already used (meta tools, earlier additions)."""
    fixed_tokens: int = 0
    expandable: bool = False
    """True: `request_more_tools` is offered, so the budget's reserve stays free."""
    principal: Principal | None = None
    """The caller, for learned preferences; None: anonymous."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWords:
    """A query for rankers: the last messages of the conversation, newest first, each with its weight."""

    messages: tuple[tuple[str, float], ...]
    """Messages of the user, each with its weight."""
    replies: tuple[tuple[str, float], ...] = ()
    """Messages of the assistant between those of the user, each with its weight."""
    called: tuple[str, ...] = ()
    """Names of recently called tools."""
    principal: Principal | None = None
    """The caller; None: anonymous."""
    language: str = "en"
    """Code of the language of the current message, ISO 639-1; "": one that Toolcaddie has no words of."""
    foreign: float = 0.0
    """Share of the visible tools, 0 to 1, whose texts are in another language than the request; 0 if most are in the same."""
    translations: tuple[tuple[str, float], ...] = ()
    """English words for a foreign request, as texts with weights, for rankers that compare words; empty if there are none."""

    @property
    def texts(self) -> tuple[tuple[str, float], ...]:
        """The texts that are compared word by word, each with its weight: the translations, or all messages as they are."""
        return self.translations or (*self.messages, *self.replies)


class SelectedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A selected tool, its score and the reasons. `slim`: its schema is sent in a shorter form."""

    tool: Tool
    score: float = 0.0
    reasons: Sequence[str] = ()
    """In words for people. A selector may give a `LazySequence`, because most reasons are never read."""
    slim: bool = False
    core: bool = False


DropStage = Literal["hidden", "floor", "no_match", "max_tools", "quota", "provider_cap", "max_tokens"]


class DroppedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A dropped tool, with the stage of selection that dropped it, and the reason."""

    name: str
    stage: DropStage
    detail: str = ""
    score: float = 0.0


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The tools chosen for a request, core tools first, and the tools that were dropped."""

    tools: tuple[SelectedTool, ...] = ()
    dropped: Sequence[DroppedTool] = ()
    """The best of the dropped tools. A selector may give a `LazySequence`."""
    categories: tuple[str, ...] = ()
    """Categories with selected tools: first the matched ones, then those related to them; if none matched, the default ones."""
    matched: tuple[str, ...] = ()
    """Categories matched by a keyword or named by the caller."""
    no_match: bool = False
    """True: nothing fitted the request; the tools are defaults or core tools."""
    doubt: float | None = None
    """The probability that no tool fits the request, if as many requests fit no tool as fit one; None: not estimated, because the
    whole catalog was sent, no tool is visible, the request or the tools are not in English, other rankers are used, or a tool was
    called after a similar request."""
    starved: tuple[str, ...] = ()
    """Matched categories that got no tool because the budget ran out."""
    catalog_size: int = 0
    """Number of visible tools."""
    shadowed: tuple[str, ...] = ()
    """Names of catalog tools that the request replaced by its own tools of the same names."""
    degraded: tuple[str, ...] = ()
    """A sentence for each part that did not work, such as the embedder, with what selected in its place."""
    tokens_all: int = 0
    tokens_selected: int = 0
    seconds: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(selected.tool.name for selected in self.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """The categories that a first stage (a model call before selection) named for a conversation."""

    categories: tuple[str, ...] = ()
    """Visible categories, the most important first. Empty: no tool is needed, or the first stage failed."""
    how: Literal["asked", "kept", "failed"] = "asked"
    """`kept`: the message continues the topic of the previous turn, so its categories are used again without a call."""
    detail: str = ""
    model: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0
