"""The replacement of a text in a file."""

from __future__ import annotations

from toolcaddie.guards.paths import PathError
from toolcaddie.tools.files.sizes import check_size, encoded


def edited(
    path: str, content: bytes, old_text: str, new_text: str, *, replace_all: bool, most: int
) -> tuple[bytes, int]:
    """Returns the new content, and the number of replacements. Raises `PathError`, in words for the model, if `old_text` is
    missing, or occurs several times without `replace_all`, or if the new content would have more than `most` bytes."""
    if not old_text:
        raise PathError("old_text is empty; give the text to replace, or write the file with file_write")
    if old_text == new_text:
        raise PathError("old_text and new_text are the same, so nothing would change")
    _check_text(path, content)
    # No character of UTF-8 begins within another one, so bytes are found exactly where the text is.
    old, new = encoded(old_text, called="old_text"), encoded(new_text, called="new_text")
    if old not in content and _has_crlf(content):
        old, new = _as_crlf(old), _as_crlf(new)
    count = content.count(old)
    if count == 0:
        raise PathError(f"old_text occurs 0 times in {path}; read the file, and copy the text exactly, with its spaces")
    if count > 1 and not replace_all:
        raise PathError(
            f"old_text occurs {count} times in {path}; add lines around it until it is unique, or set replace_all to true"
        )
    # Before anything is made: many replacements by a long text would fill the memory.
    check_size(len(content) + count * (len(new) - len(old)), most=most)
    return content.replace(old, new), count


def _check_text(path: str, content: bytes) -> None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise PathError(f"{path} is not text in UTF-8, so it cannot be edited") from error


def _has_crlf(content: bytes) -> bool:
    """Returns whether every line ends with CR LF, which readers of the file do not see."""
    return content.count(b"\r\n") == content.count(b"\n") > 0


def _as_crlf(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
