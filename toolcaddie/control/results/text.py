"""Text of strangers as UTF-8: how much it is, and what of it can be written at all."""

from __future__ import annotations

_CHUNK = 1_000_000


def utf8_size(text: str) -> int:
    """Bytes in UTF-8, without a second copy of a text of many megabytes."""
    if text.isascii():
        return len(text)
    return sum(
        len(text[start : start + _CHUNK].encode(errors="surrogatepass")) for start in range(0, len(text), _CHUNK)
    )


def valid_text(text: str) -> str:
    """Surrogates that pair up become the character they mean, lone ones the replacement character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
