"""The size of untrusted text in UTF-8."""

from __future__ import annotations

_CHUNK = 1_000_000
"""The number of characters that are encoded at once."""


def utf8_size(text: str) -> int:
    """Counts the bytes in UTF-8 without a second copy of a text of many megabytes."""
    if text.isascii():
        return len(text)
    return sum(
        len(text[start : start + _CHUNK].encode(errors="surrogatepass")) for start in range(0, len(text), _CHUNK)
    )
