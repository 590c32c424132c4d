"""HTTP APIs as tool sources: each operation of an OpenAPI document becomes a tool of the catalog.

    [[source]]
    type = "openapi"
    name = "pets"
    document = "pets.yaml"
    servers = ["https://pets.example.com/v1"]

`docs/openapi.md` describes all settings.
"""

from __future__ import annotations

from typing import Unpack

from typing_extensions import TypedDict

from toolcaddie.core.numbers import Positive, Seconds
from toolcaddie.parts import Parts, Variable
from toolcaddie.sources.openapi.api import Credential, OpenApi
from toolcaddie.sources.openapi.source import OpenApiSource


class Options(TypedDict, total=False):
    """The optional settings of an API; `OpenApi` describes them."""

    servers: tuple[str, ...]
    auth: dict[str, Credential]
    headers: dict[str, str]
    headers_from: dict[str, Variable]
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    read_only: tuple[str, ...]
    prefix: str
    category: str
    timeout: Seconds
    concurrency: Positive
    hedge_after: Seconds
    max_document_bytes: Positive
    max_response_bytes: Positive
    max_schema_bytes: Positive


def openapi(*, name: str, document: str, parts: Parts, **options: Unpack[Options]) -> OpenApiSource:
    """Returns the source of an API. Raises `ConfigError` for settings that contradict each other."""
    return OpenApiSource(OpenApi(name=name, document=document, **options), parts)


__all__ = ["Credential", "OpenApi", "OpenApiSource", "openapi"]
