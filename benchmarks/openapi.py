"""Loading an OpenAPI document of 10,000 operations: python -m benchmarks openapi

Each measurement is a process of its own, which imports the source first and then opens it. Memory is the growth of the process's
largest resident size while the document is read, so the parsed document and everything temporary count too. The goals are
less than 2 seconds and less than 150 MB.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from toolcaddie.sources.openapi import OpenApi, OpenApiSource

OPERATIONS = 10_000
REPETITIONS = 5
MOST_SECONDS = 2.0
MOST_MEGABYTES = 150.0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    operations: int
    tools: int
    seconds: float
    megabytes: float


def document(operations: int) -> dict[str, Any]:
    """Returns a document with five operations a path, and for every path a schema that refers to three others."""
    kinds = operations // 5
    paths: dict[str, Any] = {}
    for number in range(kinds):
        thing = f"Thing{number}"
        paths[f"/things{number}"] = {"get": _operation(thing, "list"), "post": _operation(thing, "create", body=True)}
        paths[f"/things{number}/{{id}}"] = {
            "get": _operation(thing, "read", path=True),
            "put": _operation(thing, "replace", path=True, body=True),
            "delete": _operation(thing, "delete", path=True),
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Large", "version": "1"},
        "servers": [{"url": "https://api.example.com"}],
        "paths": paths,
        "components": {"schemas": {f"Thing{number}": _schema(number, kinds) for number in range(kinds)}},
    }


def _operation(thing: str, verb: str, *, path: bool = False, body: bool = False) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{thing}"}
    parameters = [{"name": "fields", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}}]
    if path:
        parameters.append({"name": "id", "in": "path", "required": True, "schema": {"type": "string"}})
    operation: dict[str, Any] = {
        "operationId": f"{verb}{thing}",
        "summary": f"{verb.capitalize()} a {thing}",
        "tags": [f"group{int(thing.removeprefix('Thing')) % 50}"],
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}},
    }
    if body:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": reference}}}
    return operation


def _schema(number: int, kinds: int) -> dict[str, Any]:
    others = {
        f"other{step}": {"$ref": f"#/components/schemas/Thing{number + step}"}
        for step in (1, 2, 3)
        if number % 8 + step < 8 and number + step < kinds
    }
    return {
        "type": "object",
        "required": ["name"],
        "properties": {
            "id": {"type": "string", "readOnly": True},
            "name": {"type": "string", "description": f"The name of thing {number}", "maxLength": 80},
            "count": {"type": "integer", "minimum": 0},
            "tags": {"type": "array", "items": {"type": "string"}},
            **others,
        },
    }


async def _load(path: str) -> Row:
    source = OpenApiSource(OpenApi(name="large", document=path, servers=("https://api.example.com",)))
    before = _largest_kilobytes()
    started = time.perf_counter()
    await source.open()
    seconds = time.perf_counter() - started
    grown = _largest_kilobytes() - before
    tools = len(source.tools())
    await source.close()
    return Row(operations=OPERATIONS, tools=tools, seconds=seconds, megabytes=grown / 1024)


def _largest_kilobytes() -> int:
    """Returns the largest resident size of this program so far. `ru_maxrss` would include the size of the parent process."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None, "this benchmark needs Linux"
    return int(match[1])


def measure(path: Path) -> Row:
    """Returns what a process of its own measures."""
    command = [sys.executable, "-m", "benchmarks.openapi", "--load", str(path)]
    return msgspec.json.decode(subprocess.run(command, check=True, capture_output=True).stdout, type=Row)


def main(arguments: Sequence[str] = ()) -> list[Row]:
    if arguments and arguments[0] == "--load":
        sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(_load(arguments[1]))))
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.json"
        path.write_text(json.dumps(document(OPERATIONS)))
        size = path.stat().st_size / 1024**2
        rows = [measure(path) for _ in range(1 if "--quick" in arguments else REPETITIONS)]
    seconds = sorted(row.seconds for row in rows)[len(rows) // 2]
    megabytes = max(row.megabytes for row in rows)
    print(f"{OPERATIONS:,} operations, {size:.1f} MB of JSON, {len(rows)} processes")
    print(f"tools    {rows[0].tools:>9,}  goal: {OPERATIONS:,}  {_verdict(rows[0].tools == OPERATIONS)}")
    print(f"seconds  {seconds:9.2f}  goal: < {MOST_SECONDS:g} (median)  {_verdict(seconds < MOST_SECONDS)}")
    print(f"MB       {megabytes:9.1f}  goal: < {MOST_MEGABYTES:g} (largest)  {_verdict(megabytes < MOST_MEGABYTES)}")
    return rows


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "MISSED"


if __name__ == "__main__":
    main(sys.argv[1:])
