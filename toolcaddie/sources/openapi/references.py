"""References inside an OpenAPI document. Only pointers into the document itself are followed; nothing is ever fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcaddie.core.errors import CatalogError
from toolcaddie.core.schema.walk import resolve

_MOST_HOPS = 20


def target_of(document: Mapping[str, Any], reference: str) -> Any:
    """Returns the value that a reference points to. Raises `CatalogError` if it leaves the document or points nowhere."""
    if not reference.startswith("#"):
        raise CatalogError(f"the reference {reference[:200]!r} leaves the document and is never fetched")
    target = resolve(document, reference)
    if target is None:
        raise CatalogError(f"the reference {reference[:200]!r} points nowhere")
    return target


def followed(document: Mapping[str, Any], node: Any) -> dict[str, Any]:
    """Returns the object itself, or the one that its `$ref` leads to. Raises `CatalogError` if there is no such object."""
    for _ in range(_MOST_HOPS):
        if not isinstance(node, dict):
            raise CatalogError(f"an object is expected, not {type(node).__name__}")
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return node
        node = target_of(document, reference)
    raise CatalogError(f"more than {_MOST_HOPS} references lead from one to the next")
