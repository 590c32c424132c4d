"""Encodes values: canonical JSON, its digest, and an estimate of its tokens."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder(order="sorted")

BYTES_PER_TOKEN = 3.6
"""Assumed bytes of JSON per token until a model has answered; then the provider's usage figures give the number for the model."""


def canonical_json(value: Any) -> bytes:
    """Returns JSON with sorted keys and no spaces: equal values give equal bytes."""
    return _ENCODER.encode(value)


def digest(value: Any) -> str:
    """Returns the SHA-256 of the canonical JSON, 64 hex digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def estimate_tokens(text: bytes | str) -> int:
    """Estimates the tokens of a text by its size in UTF-8 bytes, rounded up."""
    size = len(text) if isinstance(text, bytes) else len(text.encode(errors="surrogatepass"))
    return int(-(-size // BYTES_PER_TOKEN))


def shorten(text: str, size: int) -> str:
    """Returns a text of at most `size` characters: unchanged if it fits, else its first sentence if that fits, else cut. The
    result never has more bytes than the text."""
    if len(text) <= size:
        return text
    ends = (text.find(mark, 0, size) for mark in _SENTENCE_ENDS)
    end = min((at for at in ends if at >= 0), default=-1)
    # The ellipsis is three bytes of UTF-8, so three characters make room for it.
    return text[: end + 1] if end >= 0 else text[: size - 3].rstrip() + "…"


_SENTENCE_ENDS = tuple(mark + space for mark in ".!?" for space in " \n\t")
