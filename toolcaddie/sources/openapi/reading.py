"""Reads an OpenAPI document: its bytes from a file or an address, and the JSON or YAML in them. Both may come from a stranger, so
their size, their depth and the number of their values are limited."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec

from toolcaddie.core.errors import CatalogError, OutboundError
from toolcaddie.guards.json_counts import counts
from toolcaddie.guards.net import read_capped
from toolcaddie.parts import Parts
from toolcaddie.sources.openapi.addresses import origin
from toolcaddie.sources.openapi.api import OpenApi

MAX_VALUES = 3_000_000
MAX_DEPTH = 128

_SECONDS = 60.0


def is_address(document: str) -> bool:
    """Returns True for the address of a document, False for the path of a file."""
    return bool(re.match(r"(?i)https?://", document))


async def read_bytes(api: OpenApi, parts: Parts) -> bytes:
    """Returns the document's bytes. An address is fetched from public hosts only, unless it is on the origin of one of the
    configured servers. Raises `CatalogError` or `OutboundError`."""
    if not is_address(api.document):
        return await asyncio.to_thread(_read_file, Path(api.document), api.max_document_bytes)
    if origin(api.document) not in map(origin, api.servers):
        async with parts.guarded_client(seconds=_SECONDS) as client:
            page = await client.fetch(api.document, max_bytes=api.max_document_bytes)
            status, body = page.status, page.body
    else:
        async with parts.client(seconds=_SECONDS) as session:
            status, body = await _fetched(session, api)
    if status != 200:
        raise OutboundError(f"{_shown(api.document)} answered with status {status}; the document is not there")
    return body


async def _fetched(session: Any, api: OpenApi) -> tuple[int, bytes]:
    try:
        async with session.get(api.document) as response:
            return response.status, await read_capped(response, api.max_document_bytes, setting="max_document_bytes")
    except (OSError, TimeoutError, ValueError) as error:
        raise OutboundError(f"{_shown(api.document)} cannot be fetched: {type(error).__name__}") from error


def _shown(address: str) -> str:
    return re.sub(r"//[^/@]*@", "//", address.partition("?")[0])


def _read_file(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise CatalogError(f"{path} cannot be read: {error.strerror}; give the path of an OpenAPI document") from error
    if len(content) > most:
        raise CatalogError(f"{path} is larger than the {most:,} bytes allowed for it (setting max_document_bytes)")
    return content


def parse(content: bytes, *, what: str) -> dict[str, Any]:
    """Returns the document in these bytes. Raises `CatalogError`; `what` names the document."""
    text = content.removeprefix(b"\xef\xbb\xbf")
    try:
        value = _json(text) if text.lstrip()[:1] == b"{" else _yaml(text)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise CatalogError(f"{what} is neither JSON nor YAML: {str(error)[:300]}") from error
    if not isinstance(value, dict):
        raise CatalogError(f"{what} is not an OpenAPI document, because it is not an object")
    return _checked_version(value, what)


def _json(text: bytes) -> Any:
    size = counts(text, most=MAX_VALUES, deepest=MAX_DEPTH)
    if size.values > MAX_VALUES or size.depth > MAX_DEPTH:
        raise ValueError(f"it has more than {MAX_VALUES:,} values or more than {MAX_DEPTH} nested levels")
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        # YAML too may begin with a brace; but a document that is not YAML either has an error in its JSON.
        try:
            return _yaml(text)
        except ValueError:
            pass
        raise


def _yaml(text: bytes) -> Any:
    # Imported here, because most documents are JSON and the parser takes a while to load.
    from toolcaddie.sources.openapi.yaml import load  # noqa: PLC0415

    return load(text.decode(), most=MAX_VALUES, deepest=MAX_DEPTH)


def _checked_version(document: dict[str, Any], what: str) -> dict[str, Any]:
    version = document.get("openapi")
    if isinstance(version, str) and re.match(r"3\.[012](\.|\Z|-)", version):
        return document
    if "swagger" in document:
        raise CatalogError(f"{what} is written in Swagger {str(document['swagger'])[:20]}; convert it to OpenAPI 3")
    raise CatalogError(
        f"{what} is not an OpenAPI document of version 3.0 or 3.1; its field 'openapi' says {version!r:.40}"
    )
