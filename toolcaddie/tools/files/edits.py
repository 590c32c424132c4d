"""The replacement of a text in a file."""

from __future__ import annotations

from toolcaddie.guards.paths import PathError


def edited(path: str, content: bytes, old_text: str, new_text: str, *, replace_all: bool) -> tuple[bytes, int]:
    """Returns the new content, and the number of replacements. Raises `PathError`, in words for the model, if `old_text` is
    missing, or occurs several times without `replace_all`."""
    if not old_text:
        raise PathError("old_text is empty; give the text to replace, or write the file with file_write")
    if old_text == new_text:
        raise PathError("old_text and new_text are the same, so nothing would change")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise PathError(f"{path} is not text in UTF-8, so it cannot be edited") from error
    if old_text not in text and _has_crlf(text):
        old_text, new_text = _as_crlf(old_text), _as_crlf(new_text)
    count = text.count(old_text)
    if count == 0:
        raise PathError(f"old_text occurs 0 times in {path}; read the file, and copy the text exactly, with its spaces")
    if count > 1 and not replace_all:
        raise PathError(
            f"old_text occurs {count} times in {path}; add lines around it until it is unique, or set replace_all to true"
        )
    return text.replace(old_text, new_text).encode(), count


def _has_crlf(text: str) -> bool:
    """Returns whether every line ends with CR LF, which readers of the file do not see."""
    return text.count("\r\n") == text.count("\n") > 0


def _as_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
