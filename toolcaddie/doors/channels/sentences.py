"""What the door of the channels itself says, in the languages of bots. `sentences.toml` has the texts.

sentences_in("es").stopped  ->  "Detenido."
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from toolcaddie.engine.prompt import Language
from toolcaddie.engine.prompt.blocks import Words


class Sentences(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sentences in one language. Those with words in braces are completed by `str.format`."""

    failed: str
    empty_answer: str
    too_long: str
    budget_spent: str
    not_possible: str
    too_many: str
    pairing: str

    unreadable: str
    unreadable_without_files: str
    picture_unreadable: str
    file_unreadable: str
    edited: str

    help: str
    stopped: str
    nothing_to_stop: str
    not_yours_to_stop: str
    new_conversation: str

    asked_others: str
    waits_in_inbox: str
    question: str
    question_private: str
    question_group: str
    question_tool: str
    question_arguments: str
    question_preview: str
    question_reason: str
    question_taint: str
    question_answers: str
    approve: str
    deny: str
    approved: str
    refused: str
    which_question: str
    unknown_approval: str
    approval_closed: str
    may_not_approve: str
    not_decided: str

    forwarded: str
    attached: str
    also_unreadable: str


@lru_cache
def sentences_in(language: Language) -> Sentences:
    """Returns the sentences in a language."""
    text = files(__package__).joinpath("sentences.toml").read_text(encoding="utf-8")
    words = msgspec.convert(tomllib.loads(text), dict[str, Words])
    return msgspec.convert({name: each.of(language).strip() for name, each in words.items()}, Sentences)
