"""Cuts English and foreign texts into words, as alignment needs them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from toolcaddie.selection.languages.words import UNSPACED, spelled, stemmed

_PLACEHOLDER = re.compile(r"%\(\w+\)[sdf]|%[sd]|\{[^{}]*\}|<[^<>]*>|https?://\S+|&\w+;|\[%key:[^\]]*%\]")


def bare(text: str) -> str:
    """Returns a text without placeholders, tags and addresses."""
    return _PLACEHOLDER.sub(" ", text)


def english_words(text: str) -> list[str]:
    return [word for word in spelled(text) if word.isalpha()]


def foreign_words(text: str, code: str) -> list[str]:
    """Returns the words of a text, not stemmed. Texts without spaces are cut by a segmenter of their language."""
    if code in UNSPACED:
        return [part for word in _segmenter(code)(text) for part in spelled(word) if not part.isdigit()]
    return [word for word in spelled(text) if not word.isdigit()]


def foreign_stems(words: list[str], code: str) -> list[str]:
    return stemmed(words, code)


@lru_cache(maxsize=4)
def _segmenter(code: str) -> Callable[[str], list[str]]:
    if code == "zh":
        import jieba  # noqa: PLC0415  # only this language needs it

        jieba.setLogLevel(60)
        return jieba.lcut
    if code == "ja":
        from janome.tokenizer import Tokenizer  # noqa: PLC0415  # only this language needs it

        tokens = Tokenizer()
        return lambda text: [token.surface for token in tokens.tokenize(text)]
    from pythainlp.tokenize import word_tokenize  # noqa: PLC0415  # only this language needs it

    return lambda text: word_tokenize(text, keep_whitespace=False)
