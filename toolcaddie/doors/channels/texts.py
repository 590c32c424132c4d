"""Recognises the attached files that a bot reads as text."""

from __future__ import annotations

from toolcaddie.core.channels import AttachedFile
from toolcaddie.core.errors import OutboundError

MOST_BYTES = 64 * 1024
"""Size of the largest text that is accepted."""

_TYPES = frozenset({"text/plain", "text/markdown", "text/x-markdown", "text/csv", "application/json"})
_UNKNOWN_TYPES = ("", "application/octet-stream")
_ENDINGS = (".txt", ".md", ".markdown", ".csv", ".json")


def is_text(file: AttachedFile) -> bool:
    """Returns True if a file says that it is a text. Its name counts if its type is unknown."""
    mime_type = file.mime_type.partition(";")[0].strip().lower()
    return mime_type in _TYPES or (mime_type in _UNKNOWN_TYPES and file.name.lower().endswith(_ENDINGS))


def text_of(data: bytes) -> str:
    """Returns the text of a file. Raises `OutboundError` if it is none."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OutboundError("it is no text in UTF-8") from error
    if "\0" in text or not text.strip():
        raise OutboundError("it is no text, or an empty one")
    return text
