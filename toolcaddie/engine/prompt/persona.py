"""A bot's own texts in its prompt: the files that say who it is, and memories that were fetched for one message."""

from __future__ import annotations

from collections.abc import Mapping

from toolcaddie.engine.prompt.blocks import Language, frame
from toolcaddie.guards.markers import marked, neutral

MEMORY_MOST = 8000
"""The largest number of characters of fetched memories."""


def persona_text(files: Mapping[str, str], language: Language) -> str:
    """Returns the files `IDENTITY.md`, `SOUL.md`, `MOTIVATIONS.md` and `GOALS.md` under short headings, for the place behind the
    blocks; each file is cut at its own size. Empty: none of them has a text. Other files are not shown.

    Nothing in them can begin or end a passage of untrusted text.
    """
    around = frame()
    parts = [
        f"## {part.of(language)}\n{_cut(neutral(files[path].strip()), part.most, language)}"
        for path, part in around.persona.items()
        if files.get(path, "").strip()
    ]
    return "\n\n".join([around.words["persona"].of(language), *parts]) if parts else ""


def memory_message(text: str, language: Language) -> str:
    """Returns the text of a message with memories, for a place near the end of the messages; empty: there are none.

    They stand between the markers of untrusted text, because a memory may quote a page or a stranger.
    """
    if not text.strip():
        return ""
    return f"{frame().words['memory'].of(language)}\n{marked(_cut(text.strip(), MEMORY_MOST, language))}"


def _cut(text: str, most: int, language: Language) -> str:
    """Returns the text. A longer one is cut, at the end of a line if possible, with a note of how much is missing."""
    if len(text) <= most:
        return text
    line_end = text.rfind("\n", most * 3 // 4, most)
    shown = text[: line_end if line_end > 0 else most].rstrip()
    return f"{shown}\n{frame().words['cut'].of(language).format(count=len(text) - len(shown))}"
