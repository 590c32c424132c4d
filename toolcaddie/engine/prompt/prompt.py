"""The part of a bot's system prompt that speaks of its tools.

    prompt_of(mode="conversation", language="en", offered=["get_datetime"], facts=PromptFacts())
    # "## Date and time\n- You do not know what time it is. Call get_datetime whenever ..."

The blocks have a fixed order, and what varies from chat to chat stands behind them, so that the provider's prompt cache holds for
all runs of a bot in one mode. Equal arguments give equal bytes, whatever the order of `offered`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from toolcaddie.core.bots import GROUPS, BotCard, Mode
from toolcaddie.engine.prompt.blocks import Block, Language, Line, blocks, frame

IN_COLLABORATION = ("soul", "memory")
"""The groups whose blocks a bot reads when another bot asks it. Which tools it has then is a setting of its own."""
_BOTS_MOST = 30
"""The largest number of bots that the block of delegation lists."""
_DESCRIPTION_MOST = 200
"""Characters of a bot's description."""


class PromptFacts(Struct, frozen=True, kw_only=True):
    """What the texts depend on, apart from mode, language and tools."""

    bots: Sequence[BotCard] = ()
    """The bots that this one may ask."""
    memory_fetched: bool = False
    """True: memories were fetched before the run and stand near the end of the messages."""
    group_chat: bool = False
    """True: several people take part in the chat."""
    expandable: bool = False
    """True: the model may ask for more tools than it sees, and nothing else in the prompt says so."""


def prompt_of(*, mode: Mode, language: Language, offered: Collection[str], facts: PromptFacts) -> str:
    """Returns the instructions for the tools that are offered; empty: there is nothing to say. The block of a group appears only
    if one of its tools is offered."""
    names = frozenset(offered)
    around = frame()
    parts = [_rendered(around.autonomy, mode, language, names, facts)] if mode == "autonomous" else []
    parts += (block_text(group, mode=mode, language=language, offered=names, facts=facts) for group in blocks())
    if facts.expandable:
        parts.append(_rendered(around.expansion, mode, language, names, facts))
    if facts.group_chat:
        parts.append(_rendered(around.group_chat, mode, language, names, facts))
    return "\n\n".join(filter(None, parts))


def block_text(group: str, *, mode: Mode, language: Language, offered: Collection[str], facts: PromptFacts) -> str:
    """Returns the block of a group; empty: it does not appear."""
    names = frozenset(offered)
    if names.isdisjoint(GROUPS[group]) or (mode == "collaboration" and group not in IN_COLLABORATION):
        return ""
    text = _rendered(blocks()[group], mode, language, names, facts)
    return "\n".join([text, *_bots(facts.bots, language)]) if group == "delegation" else text


def _rendered(block: Block, mode: Mode, language: Language, offered: frozenset[str], facts: PromptFacts) -> str:
    shown = [f"- {line.of(language)}" for line in block.lines if _is_shown(line, mode, offered, facts)]
    return "\n".join([f"## {block.title.of(language)}", *shown])


def _is_shown(line: Line, mode: Mode, offered: frozenset[str], facts: PromptFacts) -> bool:
    return (
        mode in line.modes
        and (not line.tools or not offered.isdisjoint(line.tools))
        and offered.isdisjoint(line.without)
        and line.fetched in (None, facts.memory_fetched)
    )


def _bots(cards: Sequence[BotCard], language: Language) -> Iterator[str]:
    """Yields the list of bots, a line for each. A description cannot begin a line of its own."""
    if not cards:
        return
    words = frame().words
    yield f"- {words['bots'].of(language)}"
    for card in cards[:_BOTS_MOST]:
        description = " ".join(card.description.split())
        cut = (
            description
            if len(description) <= _DESCRIPTION_MOST
            else f"{description[: _DESCRIPTION_MOST - 1].rstrip()}…"
        )
        yield f"  - {card.name}: {cut}" if cut else f"  - {card.name}"
    if len(cards) > _BOTS_MOST:
        yield f"  - {words['more'].of(language).format(count=len(cards) - _BOTS_MOST)}"
