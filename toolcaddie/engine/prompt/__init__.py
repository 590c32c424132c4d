"""The system prompt of a bot: instructions for its tools by mode, its own files, and memories that were fetched for it."""

from __future__ import annotations

from toolcaddie.engine.prompt.blocks import Block, Language, Line, blocks
from toolcaddie.engine.prompt.persona import memory_message, persona_text
from toolcaddie.engine.prompt.prompt import PromptFacts, block_text, prompt_of

__all__ = [
    "Block",
    "Language",
    "Line",
    "PromptFacts",
    "block_text",
    "blocks",
    "memory_message",
    "persona_text",
    "prompt_of",
]
