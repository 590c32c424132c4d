"""Recognises the formats of pictures that models read, by their first bytes."""

from __future__ import annotations

from toolcaddie.core.channels import AttachedFile
from toolcaddie.core.content import Image
from toolcaddie.core.errors import OutboundError

MOST_BYTES = 5 * 1024 * 1024
"""Size of the largest picture that is accepted, as the strictest model API has it."""

_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def is_picture(file: AttachedFile) -> bool:
    """Returns True if an attached file says that it is a picture."""
    return file.mime_type in _TYPES


def image_of(data: bytes) -> Image:
    """Returns the picture as a block. Raises `OutboundError` if it is none that models read."""
    if data.startswith(b"\xff\xd8\xff"):
        mime_type = "image/jpeg"
    elif data.startswith(b"\x89PNG\r\n\x1a\n"):
        mime_type = "image/png"
    elif data.startswith((b"GIF87a", b"GIF89a")):
        mime_type = "image/gif"
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        mime_type = "image/webp"
    else:
        raise OutboundError("it is no JPEG, PNG, GIF or WebP")
    return Image.from_bytes(data, mime_type)
