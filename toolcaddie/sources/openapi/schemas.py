"""Turns schemas of an OpenAPI document into JSON schemas of draft 2020-12 for requests.

References stay references: each target is converted once, and a tool's schema gets the definitions that it reaches under `$defs`.
So recursion is no problem, and tools share the memory of their definitions. Properties that are `readOnly` are omitted, because
they do not belong into requests.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from toolcaddie.core.errors import CatalogError
from toolcaddie.core.schema.walk import anchors, every_schema
from toolcaddie.sources.names import with_digest
from toolcaddie.sources.openapi.cuts import WHOLE, Cut
from toolcaddie.sources.openapi.keywords import NAMED, ONE, PLAIN, SEVERAL, TYPES
from toolcaddie.sources.openapi.references import target_of
from toolcaddie.util.text import visible

FILE = {
    "type": ["string", "object"],
    "description": "A file: its text, or an object with its content in base64.",
    "properties": {
        "base64": {"type": "string"},
        "text": {"type": "string"},
        "filename": {"type": "string"},
        "media_type": {"type": "string"},
    },
    "additionalProperties": False,
}
"""The schema of a file in the arguments of a call."""

_COMPONENTS = "#/components/schemas/"


class Schemas:
    """The converted schemas of one document. `files`: a `binary` text is a file, as in forms; otherwise it stays a text."""

    def __init__(self, document: Mapping[str, Any], *, files: bool = False) -> None:
        self._document = document
        self._old = str(document.get("openapi", "")).startswith("3.0")
        self._files = files
        self._names: dict[str, str] = {}
        """Name of the definition for each reference."""
        self._definitions: dict[str, Any] = {}
        self._cut: dict[tuple[str, Cut], Any] = {}
        """Definitions that were cut before, because the tools of a document share them."""
        self._uses: dict[str, tuple[str, ...]] = {}
        """Names of the definitions that each definition refers to."""
        self._waiting: deque[tuple[str, Any]] = deque()
        """Definitions that have a name but are not converted yet. They wait, because a chain of references may be longer than the
        stack."""
        self._anchors: Mapping[str, Any] | None = None
        self.problems: list[str] = []

    def converted(self, node: Any, used: set[str]) -> Any:
        """Returns a schema of the document in draft 2020-12. Adds the names of the definitions that it refers to to `used`."""
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict):
            return {}
        reference = node.get("$ref", node.get("$dynamicRef"))
        if isinstance(reference, str):
            return self._reference(reference, node, used)
        return self._nullable(node, self._inner(node, used))

    def definitions(self, names: Iterable[str], *, levels: int | None = None, cut: Cut = WHOLE) -> dict[str, Any]:
        """Returns these definitions and all that they refer to, in the order of their distance. References that lead farther than
        `levels` accept any value of the right type. `cut`: what each definition loses."""
        self._convert_waiting()
        reached: dict[str, Any] = {}
        queue = deque((name, 0) for name in sorted(names))
        while queue:
            name, level = queue.popleft()
            if name in reached:
                continue
            too_far = levels is not None and level > levels
            reached[name] = _outline(self._definitions[name]) if too_far else self._cut_definition(name, cut)
            if not too_far:
                queue.extend((each, level + 1) for each in self._uses[name])
        return reached

    def _cut_definition(self, name: str, cut: Cut) -> Any:
        if cut == WHOLE:
            return self._definitions[name]
        if (name, cut) not in self._cut:
            self._cut[name, cut] = cut.applied(self._definitions[name])
        return self._cut[name, cut]

    def target(self, node: Any) -> Any:
        """Returns the schema of the document that a schema stands for, after all its references."""
        for _ in range(20):
            if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
                return node
            try:
                node = self._target(node["$ref"])
            except CatalogError:
                return {}
        return {}

    def is_file(self, node: Any) -> bool:
        """Returns True for a schema of binary content, and for a list of such."""
        node = self.target(node)
        if isinstance(node, dict) and node.get("type") == "array":
            node = self.target(node.get("items"))
        if not isinstance(node, dict):
            return False
        media = node.get("contentMediaType")
        return (
            node.get("format") == "binary"
            or node.get("type") == "file"
            or (
                isinstance(media, str)
                and "contentEncoding" not in node
                and not media.startswith(("text/", "application/json"))
            )
        )

    def _reference(self, reference: str, node: dict[str, Any], used: set[str]) -> Any:
        try:
            name = self._defined(reference)
        except CatalogError as error:
            self.problems.append(f"a schema accepts any value, because {error}")
            return {}
        used.add(name)
        schema: dict[str, Any] = {"$ref": f"#/$defs/{name}"}
        if not self._old:
            siblings = {key: value for key, value in node.items() if key not in ("$ref", "$dynamicRef")}
            schema = {**self._inner(siblings, used), **schema}
        elif isinstance(node.get("description"), str):
            schema["description"] = visible(node["description"])
        return self._nullable(node, schema)

    def _defined(self, reference: str) -> str:
        """Returns the name of the definition for a reference."""
        name = self._names.get(reference)
        if name is None:
            target = self._target(reference)
            name = self._names[reference] = self._free_name(reference)
            self._definitions[name] = {}
            self._waiting.append((name, target))
        return name

    def _convert_waiting(self) -> None:
        while self._waiting:
            name, target = self._waiting.popleft()
            uses: set[str] = set()
            self._definitions[name] = self.converted(target, uses)
            self._uses[name] = tuple(sorted(uses))

    def _free_name(self, reference: str) -> str:
        plain = reference.removeprefix(_COMPONENTS)
        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", plain).strip("_.") or "schema"
        if plain.startswith("#"):
            name = name.rpartition("_")[2] or name
        if len(name) > 64 or name in self._definitions:
            name = with_digest(name, reference)
        return name

    def _target(self, reference: str) -> Any:
        if re.match(r"#[^/]", reference):
            target = self._anchor(reference)
            if target is not None:
                return target
        target = target_of(self._document, reference)
        if not isinstance(target, dict | bool):
            raise CatalogError(f"the reference {reference[:200]!r} points to a value that is not a schema")
        return target

    def _anchor(self, reference: str) -> Any:
        if self._anchors is None:
            components = self._document.get("components")
            schemas = components.get("schemas") if isinstance(components, dict) else None
            self._anchors = anchors(every_schema({"properties": schemas if isinstance(schemas, dict) else {}}))
        return self._anchors.get(reference)

    def _nullable(self, node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
        """Returns the converted schema of a node, which also accepts null if the node says so in the way of OpenAPI 3.0."""
        if node.get("nullable") is not True:
            return schema
        kinds = schema.get("type")
        if kinds is None and not schema.keys() & {"$ref", "allOf", "anyOf", "oneOf", "enum", "const", "not"}:
            return schema
        if kinds is None or schema.keys() & {"$ref", "allOf", "anyOf", "oneOf", "const", "not"}:
            described = {key: schema.pop(key) for key in ("description",) if key in schema}
            return {**described, "anyOf": [schema, {"type": "null"}]}
        listed = [kinds] if isinstance(kinds, str) else list(kinds)
        schema["type"] = [*listed, "null"] if "null" not in listed else listed
        if "enum" in schema and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
        return schema

    def _inner(self, node: dict[str, Any], used: set[str]) -> dict[str, Any]:
        if self._files and node.get("type") != "array" and self.is_file(node):
            return _file(node)
        schema: dict[str, Any] = {}
        if (kinds := _types(node.get("type"))) is not None:
            schema["type"] = kinds
        for keyword, value in node.items():
            check = PLAIN.get(keyword)
            if check is not None and check(value):
                schema[keyword] = visible(value) if keyword == "description" else value
        if self._old:
            _bounds(node, schema)
        hidden = self._read_only(node)
        self._add_inner_schemas(node, schema, hidden, used)
        required = node.get("required")
        if isinstance(required, list):
            names = list(dict.fromkeys(name for name in required if isinstance(name, str) and name not in hidden))
            if names:
                schema["required"] = names
        return schema

    def _add_inner_schemas(
        self, node: dict[str, Any], schema: dict[str, Any], hidden: set[str], used: set[str]
    ) -> None:
        for keyword in ONE:
            if isinstance(value := node.get(keyword), dict | bool):
                schema[keyword] = self.converted(value, used)
        for keyword in SEVERAL:
            if isinstance(value := node.get(keyword), list) and value:
                schema[keyword] = [self.converted(each, used) for each in value]
        for keyword in NAMED:
            if isinstance(value := node.get(keyword), dict):
                members = {name: each for name, each in value.items() if keyword != "properties" or name not in hidden}
                schema[keyword] = {name: self.converted(each, used) for name, each in members.items()}
        items = node.get("items")
        if isinstance(items, list) and items:  # the form of older drafts
            schema["prefixItems"] = [self.converted(each, used) for each in items]
        elif isinstance(items, dict | bool):
            schema["items"] = self.converted(items, used)

    def _read_only(self, node: dict[str, Any]) -> set[str]:
        """Returns the names of the properties that only answers have, also those of the schemas that `node` combines."""
        names: set[str] = set()
        branches = node.get("allOf")
        for part in (node, *(branches if isinstance(branches, list) else ())):
            part = self.target(part)
            properties = part.get("properties") if isinstance(part, dict) else None
            for name, each in properties.items() if isinstance(properties, dict) else ():
                if isinstance(each, dict) and self._is_read_only(each):
                    names.add(name)
        return names

    def _is_read_only(self, node: dict[str, Any]) -> bool:
        """Returns True if a property is read-only, or its target, or one of the schemas that it combines."""
        branches = node.get("allOf")
        parts = [node, *(branches if isinstance(branches, list) else ())]
        targets = [self.target(part) if isinstance(part, dict) and "$ref" in part else part for part in parts]
        return any(isinstance(part, dict) and part.get("readOnly") is True for part in (*parts, *targets))


def _outline(schema: Any) -> dict[str, Any]:
    """Returns nothing but the type of a schema."""
    return {"type": schema["type"]} if isinstance(schema, dict) and "type" in schema else {}


def _file(node: dict[str, Any]) -> dict[str, Any]:
    description = node.get("description")
    if not isinstance(description, str):
        return FILE
    return {**FILE, "description": f"{visible(description)} ({FILE['description']})"}


def _types(kinds: Any) -> str | list[str] | None:
    if isinstance(kinds, list):
        listed = [each for each in dict.fromkeys(kinds) if each in TYPES] if all(map(_is_text, kinds)) else []
        return listed or None
    if kinds == "file":
        return "string"
    return kinds if _is_text(kinds) and kinds in TYPES else None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _bounds(node: dict[str, Any], schema: dict[str, Any]) -> None:
    """Turns the exclusive bounds of OpenAPI 3.0, which are flags beside the bounds, into bounds of their own."""
    for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if node.get(flag) is True and bound in schema:
            schema[flag] = schema.pop(bound)
