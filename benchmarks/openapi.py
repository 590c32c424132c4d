"""Loading an OpenAPI document of 10,000 operations: python -m benchmarks openapi

Each measurement is a process of its own, which imports the source first and then opens it. Memory is the growth of the process's
largest resident size while the document is read, so the parsed document and everything temporary count too. The goals are
less than 2 seconds and less than 150 MB for JSON; YAML is measured too, because it takes far longer to parse. Run as a program of
its own, it ends with status 1 if a goal is missed.
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
from statistics import median
from typing import Any

import msgspec
import yaml

from toolcaddie.sources.openapi import OpenApi, OpenApiSource

OPERATIONS = 10_000
REPETITIONS = 5
MOST_SECONDS = 2.0
MOST_MEGABYTES = 150.0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    operations: int
    tools: int
    format: str
    seconds: float
    cpu_seconds: float
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
    started, started_cpu = time.perf_counter(), time.process_time()
    await source.open()
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - started_cpu
    grown = _largest_kilobytes() - before
    tools = len(source.tools())
    await source.close()
    return Row(
        operations=OPERATIONS,
        tools=tools,
        format=Path(path).suffix.removeprefix("."),
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        megabytes=grown / 1024,
    )


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
    large = document(OPERATIONS)
    with tempfile.TemporaryDirectory() as folder:
        as_json, as_yaml = Path(folder) / "large.json", Path(folder) / "large.yaml"
        as_json.write_text(json.dumps(large))
        as_yaml.write_text(yaml.dump(large, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper)))
        size = as_json.stat().st_size / 1024**2
        rows = [measure(as_json) for _ in range(1 if "--quick" in arguments else REPETITIONS)]
        rows.append(measure(as_yaml))
    *several, in_yaml = rows
    print(f"{OPERATIONS:,} operations, {size:.1f} MB of JSON, {len(several)} processes")
    for goal in _goals(several):
        print(goal.line)
    print(f"YAML     {in_yaml.seconds:9.2f} s, {in_yaml.megabytes:.1f} MB, one process")
    return rows


class Goal(msgspec.Struct, frozen=True):
    line: str
    is_met: bool


def _goals(rows: Sequence[Row]) -> list[Goal]:
    """Returns the goals for the measurements of the JSON document."""
    tools = min(row.tools for row in rows)
    seconds, cpu = median(row.seconds for row in rows), median(row.cpu_seconds for row in rows)
    megabytes = max(row.megabytes for row in rows)
    return [
        _goal(f"tools    {tools:>9,}  goal: {OPERATIONS:,}", tools == OPERATIONS),
        _goal(f"seconds  {seconds:9.2f}  goal: < {MOST_SECONDS:g} (median; CPU {cpu:.2f})", seconds < MOST_SECONDS),
        _goal(f"MB       {megabytes:9.1f}  goal: < {MOST_MEGABYTES:g} (largest)", megabytes < MOST_MEGABYTES),
    ]


def _goal(text: str, is_met: bool) -> Goal:
    return Goal(f"{text}  {'met' if is_met else 'MISSED'}", is_met)


def missed(rows: Sequence[Row]) -> list[str]:
    """Returns the goals that the rows miss."""
    several = [row for row in rows if row.format == "json"]
    return [goal.line for goal in _goals(several) if not goal.is_met] if several else []


if __name__ == "__main__":
    sys.exit(1 if missed(main(sys.argv[1:])) else 0)
