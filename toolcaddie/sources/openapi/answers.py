"""Turns the answer of an API into the result of a call, which the model reads."""

from __future__ import annotations

import base64
import http
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from toolcaddie.core.bounds import Bounds
from toolcaddie.core.content import Audio, Block, Image, Resource
from toolcaddie.core.tool import ToolResult
from toolcaddie.guards.json_counts import counts
from toolcaddie.sources.openapi.operations import Operation
from toolcaddie.sources.openapi.sending import Answer
from toolcaddie.util.text import visible_line

_SHORTEST_SECRET = 6
"""Characters of a secret from which on it is looked for in answers; a shorter one would hide harmless words."""
_SHOWN_HEADERS = ("location", "retry-after", "link")
"""Headers that help with the next step."""
_TEXTS = re.compile(r"text/|application/([\w.+-]*\+)?(xml|yaml|javascript|x-ndjson|graphql|x-www-form-urlencoded)\b")


def result_of(operation: Operation, answer: Answer, secrets: Iterable[str], bounds: Bounds) -> ToolResult:
    """Returns the result. A status of 400 or above, or a redirect, is a failed result that names the status."""
    answer = _hidden(answer, secrets)
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_error = answer.status >= 300
    head = _head(operation, answer) if is_error or not answer.body else ""
    structured = _json(answer.body, media_type, bounds)
    text = None if structured is _NONE and not _is_text(answer.body, media_type) else _text(answer)
    if text is None:
        block = _block(operation, answer.body, media_type)
        note = f"{head}\nThe answer is {media_type or 'binary'}, {len(answer.body):,} bytes."
        content: Any = note if is_error else (block,)
    else:
        content = "\n".join(each for each in (head, text) if each)
    return ToolResult(
        content=content,
        is_error=is_error,
        error="failed" if is_error else None,
        structured=None if structured is _NONE else structured,
    )


_NONE = object()


def _hidden(answer: Answer, secrets: Iterable[str]) -> Answer:
    """Returns the answer without the credentials of the call, which some servers repeat."""
    body, headers = answer.body, dict(answer.headers)
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            body = body.replace(secret.encode(), b"[hidden]")
            headers = {name: value.replace(secret, "[hidden]") for name, value in headers.items()}
    return Answer(status=answer.status, headers=headers, body=body)


def _head(operation: Operation, answer: Answer) -> str:
    try:
        phrase = f" {http.HTTPStatus(answer.status).phrase}"
    except ValueError:
        phrase = ""
    lines = [f"{operation.title} answered with {answer.status}{phrase}" + ("" if answer.body else ", without content.")]
    lines += [
        f"{name}: {visible_line(answer.headers[name])[:300]}" for name in _SHOWN_HEADERS if name in answer.headers
    ]
    return "\n".join(lines)


def _json(body: bytes, media_type: str, bounds: Bounds) -> Any:
    if not body or not re.fullmatch(r"application/([\w.+-]*\+)?json|text/json", media_type):
        return _NONE
    size = counts(body, most=bounds.values, deepest=bounds.depth)
    if size.values > bounds.values or size.depth > bounds.depth:
        return _NONE
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _NONE


def _is_text(body: bytes, media_type: str) -> bool:
    if _TEXTS.match(media_type) or media_type.endswith("json") or not body:
        return True
    if media_type.startswith(("image/", "audio/", "video/", "font/")) or b"\0" in body:
        return False
    return media_type in ("", "application/octet-stream") and _decodes(body)


def _decodes(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text(answer: Answer) -> str:
    charset = re.search(r"(?i)charset=\"?([\w.:-]{1,40})", answer.headers.get("content-type", ""))
    try:
        return answer.body.decode(charset[1] if charset else "utf-8", errors="replace")
    except LookupError:
        return answer.body.decode("utf-8", errors="replace")


def _block(operation: Operation, body: bytes, media_type: str) -> Block:
    if media_type in ("image/png", "image/jpeg", "image/gif", "image/webp"):
        return Image.from_bytes(body, media_type)
    if media_type.startswith("audio/"):
        return Audio.from_bytes(body, media_type)
    return Resource(
        uri=operation.path,
        mime_type=media_type or "application/octet-stream",
        data=base64.b64encode(body).decode(),
        name=operation.path.rstrip("/").rpartition("/")[2] or "answer",
        size=len(body),
    )
