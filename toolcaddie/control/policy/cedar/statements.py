"""Cedar text, split into its statements, so that an error names a file and a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import cedarpy
from msgspec import Struct

from toolcaddie.core.errors import ConfigError

_TOKEN = re.compile(r'//[^\n]*|"(?:[^"\\]|\\.)*"|;', re.DOTALL)
"""What a statement's end must not be looked for in, and the end itself."""
_IGNORED = re.compile(r"(?:\s+|//[^\n]*)*")


class Statement(Struct, frozen=True, kw_only=True):
    """One rule."""

    text: str
    place: str
    """File and line, or the name of what the rule was made from."""
    id: str
    """The annotation `@id`; without one, the place."""
    reason: str
    """The annotation `@reason`: what a person or a model is told; empty: there is none."""
    tree: Any
    """The rule in Cedar's JSON format."""

    @property
    def actions(self) -> frozenset[str] | None:
        """The actions that the rule is about; None: all."""
        scope = self.tree["action"]
        if scope["op"] == "All":
            return None
        entities = scope["entities"] if "entities" in scope else [scope["entity"]]
        return frozenset(entity["id"] for entity in entities)

    @property
    def names_people(self) -> bool:
        """True if the head of the rule names a principal or a role, such as `principal in Role::"boss"`."""
        scope = self.tree["principal"]
        entity = scope.get("entity") or scope.get("in", {}).get("entity") or {}
        return entity.get("type") in ("Principal", "Role")

    def place_of(self, pattern: str) -> str:
        """Returns file and line of what a regular expression first finds in the rule; of the rule, if it finds nothing."""
        file, _, line = self.place.rpartition(":")
        found = re.search(pattern, self.text)
        return self.place if found is None else f"{file}:{int(line) + self.text.count(chr(10), 0, found.start())}"


def statements_of(text: str, name: str) -> list[Statement]:
    """Returns the statements of a Cedar text. Raises `ConfigError`, which names the line, for text that is no policy.

    `name`: the file, or another name for messages.
    """
    return [_statement(part, f"{name}:{line}") for part, line in _parts(text)]


def policy_set(statements: Iterable[Statement]) -> cedarpy.PolicySet:
    """Returns the parsed set. Cedar names its policies by their position: `policy0`, `policy1` and so on."""
    return cedarpy.PolicySet.from_str("\n".join(statement.text for statement in statements))


def check_ids(statements: Sequence[Statement]) -> None:
    """Raises `ConfigError` if two statements have the same id."""
    places: dict[str, str] = {}
    for statement in statements:
        if (other := places.setdefault(statement.id, statement.place)) != statement.place:
            raise ConfigError(f"{statement.place}: the id {statement.id!r} is taken by the rule at {other}")


def _parts(text: str) -> Iterator[tuple[str, int]]:
    """Yields each statement with the number of its first line."""
    start = _beginning(text, 0)
    for token in _TOKEN.finditer(text):
        if token.group() == ";" and token.start() >= start:
            yield text[start : token.end()], text.count("\n", 0, start) + 1
            start = _beginning(text, token.end())
    if start < len(text):
        yield text[start:], text.count("\n", 0, start) + 1


def _beginning(text: str, position: int) -> int:
    match = _IGNORED.match(text, position)
    return match.end() if match else position


def _statement(text: str, place: str) -> Statement:
    try:
        parsed = json.loads(cedarpy.policies_to_json_str(text))
    except ValueError as error:
        raise ConfigError(f"{place}: this is no Cedar policy: {error}") from error
    if parsed.get("templates"):
        raise ConfigError(
            f"{place}: this is a template, which allows and forbids nothing; write the names instead of its slots"
        )
    [tree] = parsed["staticPolicies"].values()
    annotations = tree.get("annotations") or {}
    return Statement(
        text=text, place=place, id=annotations.get("id") or place, reason=annotations.get("reason") or "", tree=tree
    )
