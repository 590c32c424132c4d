"""OpenAI's own description of its API as JSON Schemas, where the file lies beside the project."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

SHARED = Path(os.environ.get("TOOLCADDIE_SHARED", Path(__file__).parents[3] / "shared"))
DESCRIPTION = SHARED / "openai" / "openapi.yml"

described = pytest.mark.skipif(
    not DESCRIPTION.is_file(), reason="the provider's OpenAPI description is not beside the project"
)

FOREIGN = ("nullable", "discriminator", "$recursiveAnchor")
"""Keywords that are no words of the JSON Schema we check with."""
REFERENCE = "#/components/schemas/"


class Schemas:
    """The schemas that are reachable from one, as one JSON Schema. The file is large: only these are parsed."""

    def __init__(self, text: str) -> None:
        section = re.split(r"^  \w+:$", text[text.index("\n  schemas:\n") + 1 :], maxsplit=2, flags=re.MULTILINE)[1]
        parts = re.split(r"^    ([\w-]+):$", section, flags=re.MULTILINE)
        self._texts = dict(zip(parts[1::2], parts[2::2], strict=True))
        self._found: dict[str, Any] = {}

    def schema_of(self, name: str) -> dict[str, Any]:
        self._collect(name)
        return {"$ref": f"#/$defs/{name}", "$defs": self._found}

    def _collect(self, name: str) -> None:
        if name not in self._found:
            self._found[name] = {}
            self._found[name] = self._plain(yaml.load(self._texts[name], Loader=yaml.CSafeLoader))

    def _plain(self, node: Any) -> Any:
        """OpenAPI 3.0's ways of saying things in JSON Schema's."""
        if isinstance(node, list):
            return [self._plain(item) for item in node]
        if not isinstance(node, dict):
            return node
        plain = {key: self._plain(value) for key, value in node.items() if key not in FOREIGN}
        for bound in ("minimum", "maximum"):
            if isinstance(plain.get(bound), str):  # YAML 1.1 reads 9.2e18 as words
                plain[bound] = float(plain[bound])
        target = plain.get("$ref")
        if isinstance(target, str):
            name = target.removeprefix(REFERENCE)
            self._collect(name)
            plain["$ref"] = f"#/$defs/{name}"
        return {"anyOf": [plain, {"type": "null"}]} if node.get("nullable") is True else plain


@cache
def validator_of(name: str) -> jsonschema_rs.Draft202012Validator:
    """For the component of that name."""
    return jsonschema_rs.Draft202012Validator(Schemas(_text()).schema_of(name))


@cache
def _text() -> str:
    return DESCRIPTION.read_text()
