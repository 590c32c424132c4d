"""The largest size of a file that the tools write."""

from __future__ import annotations

from toolcaddie.guards.paths import PathError


def check_size(size: int, *, most: int) -> None:
    """Raises `PathError`, in words for the model, for a content that is too large."""
    if size > most:
        raise PathError(f"the file would have {size:,} bytes; at most {most:,} are allowed")


def encoded(text: str, *, called: str) -> bytes:
    """Returns a text as bytes of a file. `called`: what the model knows it as. Raises `PathError`."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise PathError(f"{called} has half of a surrogate pair, which no file can hold") from error
