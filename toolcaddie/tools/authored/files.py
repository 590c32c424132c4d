"""The two files of a tool, and what they say. An approval is bound to their exact bytes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import CatalogError, RequestError
from toolcaddie.core.meta_names import META_TOOLS, READ_RESULT
from toolcaddie.core.reserved import RESERVED_NAMES
from toolcaddie.core.schema import check_schema
from toolcaddie.tools.authored.templates import words_of
from toolcaddie.tools.authored.values import AuthoredLimits, Definition, ToolType

META = "meta.json"
SOURCES: Mapping[ToolType, str] = {"python": "tool.py", "command": "tool.json", "typescript": "tool.ts"}
"""The file with the source, by type."""
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_LONGEST_NAME = 64
_LONGEST_SCOPE = 200
_OWN_NAMES = META_TOOLS | {READ_RESULT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The exact bytes of a tool."""

    meta: bytes
    source: bytes

    @property
    def digest(self) -> str:
        """SHA-256 of both files, each after its length, so that no byte can move from one to the other."""
        pieces = (b"toolcaddie-authored-1", *(len(each).to_bytes(8) + each for each in (self.meta, self.source)))
        return hashlib.sha256(b"".join(pieces)).hexdigest()


class Meta(Struct, frozen=True, kw_only=True):
    """What `meta.json` says."""

    id: str
    tenant: str
    name: str
    description: str
    type: ToolType
    scope: str
    parameters: dict[str, Any]
    created_by: Principal | None = None
    """The bot that wrote it, and the person who talked to the bot."""
    created_at: float = 0.0
    """Seconds since the epoch."""


def files_of(meta: Meta, source: str) -> Files:
    """Returns the files of a tool."""
    return Files(meta=msgspec.json.format(msgspec.json.encode(meta)) + b"\n", source=source.encode())


def meta_of(data: bytes) -> Meta:
    """Returns what `meta.json` says. Raises `RequestError` for anything else."""
    try:
        return msgspec.json.decode(data, type=Meta)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise RequestError(f"{META} cannot be read: {error}", code="broken") from error


def definition_of(files: Files, limits: AuthoredLimits) -> Definition:
    """Returns what an approval of these bytes would approve. Raises `RequestError` unless it is a usable tool."""
    meta = meta_of(files.meta)
    try:
        source = files.source.decode()
    except UnicodeDecodeError as error:
        raise RequestError(f"the source is not UTF-8: {error.reason} at byte {error.start}", code="broken") from error
    if meta.type == "command" and not source.startswith("["):
        raise RequestError("tool.json is no JSON list of words", code="broken")
    definition = Definition(
        name=meta.name,
        description=meta.description,
        type=meta.type,
        source=source,
        parameters=meta.parameters,
        scope=meta.scope,
    )
    checked(definition, limits)
    return definition  # with the source to the byte, as a reader must see it


def checked(definition: Definition, limits: AuthoredLimits) -> Definition:
    """Returns the definition; a command with its words as a JSON list. Raises `RequestError` naming the field at fault."""
    check_name(definition.name)
    check_scope(definition.scope)
    _check_size("description", len(definition.description), limits.description_characters, "characters")
    if not definition.description.strip():
        raise RequestError("the description is empty; say what the tool does, for a model", param="description")
    _check_text("description", definition.description)
    _check_text("source", definition.source)
    _check_size("source", len(definition.source.encode()), limits.source_bytes, "bytes")
    _check_parameters(definition.parameters, limits)
    if definition.type == "command":
        words = words_of(definition.source)
        _check_size("source", len(words), limits.words, "words")
        listed = msgspec.json.format(msgspec.json.encode(words)).decode() + "\n"
        return msgspec.structs.replace(definition, source=listed)
    return definition


def check_name(name: str) -> None:
    """Raises `RequestError` for a name that no tool of a bot may have."""
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise RequestError(
            f"{name[:80]!r} is no name for a tool: write at most {_LONGEST_NAME} small letters and digits, with single "
            "underscores between words, such as count_words",
            param="name",
        )
    if name in RESERVED_NAMES or name in _OWN_NAMES:
        kind = RESERVED_NAMES.get(name, "a meta tool")
        raise RequestError(f"the name {name!r} is reserved for {kind}; choose another", param="name", code="taken")


def check_scope(scope: str) -> None:
    """Raises `RequestError` for a scope that is neither `all` nor the id of a bot."""
    if not scope or len(scope) > _LONGEST_SCOPE or not scope.isprintable():
        raise RequestError("the scope is 'all' or the id of one bot", param="scope")


def _check_size(field: str, size: int, most: int, unit: str) -> None:
    if size > most:
        raise RequestError(f"the {field} has {size:,} {unit}; at most {most:,} are accepted", param=field, code="limit")


def _check_text(field: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(f"the {field} is not text: {error.reason}", param=field) from error
    if "\0" in text:
        raise RequestError(f"the {field} contains a NUL character; take it out", param=field)
    if "\r" in text.replace("\r\n", "\n"):  # readers and interpreters do not agree whether it ends a line
        raise RequestError(f"the {field} contains a carriage return that ends no line; end lines with \\n", param=field)


def _check_parameters(parameters: Mapping[str, Any], limits: AuthoredLimits) -> None:
    try:
        size = len(msgspec.json.encode(parameters))
        check_schema(parameters, what="parameters")
    except CatalogError as error:
        raise RequestError(str(error), param="parameters") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"parameters: not a JSON Schema: {error}", param="parameters") from error
    _check_size("parameters", size, limits.schema_bytes, "bytes")
