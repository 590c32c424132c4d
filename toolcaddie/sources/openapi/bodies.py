"""Writes the body of a request: JSON, a form, a form with files, or plain content."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus

import aiohttp
import msgspec

from toolcaddie.sources.openapi.operations import Body, Parameter
from toolcaddie.sources.openapi.styles import UnusableValue, query_pairs, text_of, text_of_json
from toolcaddie.sources.openapi.tools import Route

_MEDIA_TYPE = re.compile(r"[A-Za-z0-9][\w!#$&^.+-]{0,99}/[A-Za-z0-9][\w!#$&^.+-]{0,99}(; ?[\w-]{1,40}=[\w.-]{1,80})?\Z")
_FORM_STYLES = ("form", "spaceDelimited", "pipeDelimited", "deepObject")


async def encoded_body(route: Route, value: Any) -> tuple[str, bytes]:
    """Returns the media type and the bytes of a body. Raises `UnusableValue` for a value that the media type cannot carry."""
    body = route.operation.body
    assert body is not None
    name = body.media_type.partition(";")[0].strip().lower()
    try:
        if re.match(r"application/([\w.+-]*\+)?json\Z", name):
            return body.media_type, msgspec.json.encode(value)
        if name == "application/x-www-form-urlencoded":
            return body.media_type, _form(body, _fields(value)).encode()
        if name.startswith("multipart/"):
            return await _multipart(name, body, _fields(value), route.files)
        return _content(body, value)
    except (UnicodeEncodeError, TypeError) as error:
        raise UnusableValue(f"the body cannot be written as {name}: {str(error)[:200]}") from error


def _fields(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UnusableValue("the body is a form, so it must be an object with the fields of the form")
    return value


def _form(body: Body, fields: Mapping[str, Any]) -> str:
    pairs: list[tuple[str, str]] = []
    for name, value in fields.items():
        encoding = body.encoding.get(name)
        encoding = encoding if isinstance(encoding, dict) else {}
        if {"style", "explode", "allowReserved"} & encoding.keys():
            pairs += query_pairs(_as_parameter(name, encoding), value)
        elif isinstance(value, list):
            pairs += ((quote_plus(name), quote_plus(text_of(each))) for each in value)
        elif value is not None:
            pairs.append((quote_plus(name), quote_plus(text_of(value))))
    return "&".join(f"{name}={value}" for name, value in pairs)


def _as_parameter(name: str, encoding: Mapping[str, Any]) -> Parameter:
    style = encoding.get("style")
    style = style if style in _FORM_STYLES else "form"
    explode = encoding.get("explode")
    return Parameter(
        name=name,
        location="query",
        required=False,
        schema={},
        description="",
        style=style,
        explode=explode if isinstance(explode, bool) else style == "form",
        allow_reserved=encoding.get("allowReserved") is True,
    )


async def _multipart(name: str, body: Body, fields: Mapping[str, Any], files: frozenset[str]) -> tuple[str, bytes]:
    form = aiohttp.FormData(default_to_multipart=True)
    for field, value in fields.items():
        if re.search(r"[\x00-\x1f\x7f]", field):
            raise UnusableValue("the name of a field must not contain line breaks or control characters")
        encoding = body.encoding.get(field)
        declared = encoding.get("contentType") if isinstance(encoding, dict) else None
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                _add_part(form, field, each, is_file=field in files, declared=declared)
    payload = form()
    content = await payload.as_bytes()
    media_type = str(payload.headers["Content-Type"])
    return media_type.replace("multipart/form-data", name, 1), content


def _add_part(form: aiohttp.FormData, field: str, value: Any, *, is_file: bool, declared: Any) -> None:
    first = declared.partition(",")[0].strip() if isinstance(declared, str) else ""
    media_type = first if _MEDIA_TYPE.match(first) else ""
    if is_file:
        content, filename, own_type = _file(value)
        form.add_field(
            field,
            content,
            filename=filename or _safe_filename(field),
            content_type=own_type or media_type or "application/octet-stream",
        )
    elif isinstance(value, Mapping | list):
        form.add_field(field, text_of_json(value), content_type=media_type or "application/json")
    elif media_type:
        form.add_field(field, text_of(value), content_type=media_type)
    else:
        form.add_field(field, text_of(value))


def _content(body: Body, value: Any) -> tuple[str, bytes]:
    content, _, own_type = _file(value)
    media_type = body.media_type if "*" not in body.media_type else own_type or "application/octet-stream"
    return media_type, content


def _file(value: Any) -> tuple[bytes, str, str]:
    """Returns the content, the name and the media type of a file in the arguments; the last two may be empty."""
    if not isinstance(value, Mapping):
        return text_of(value).encode(), "", ""
    media_type = str(value.get("media_type") or "")
    if media_type and not _MEDIA_TYPE.match(media_type):
        raise UnusableValue("media_type is not a media type such as image/png")
    filename = _safe_filename(str(value.get("filename") or ""))
    if "base64" not in value:
        return (
            text_of(value["text"]).encode() if "text" in value else text_of_json(value).encode(),
            filename,
            media_type,
        )
    try:
        return base64.b64decode(str(value["base64"]), validate=True), filename, media_type
    except (binascii.Error, ValueError) as error:
        raise UnusableValue(f"base64 is not valid: {str(error)[:100]}") from error


def _safe_filename(name: str) -> str:
    return re.sub(r'[\x00-\x1f\x7f"/\\]', "_", name)[:200]
