"""The server of these tests: the command `toolcaddie serve`, with a provider that follows a script."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from tests.databases import home_environment
from toolcaddie.testing import ScriptedUpstream, Wire

MODEL = "gpt-test"
_SECONDS = 30


class Stage:
    """The server, and what its upstream answers next."""

    def __init__(self, address: str, upstream: ScriptedUpstream, script: list[Any]) -> None:
        self.address = address
        self.base_url = f"{address}/v1"
        self.upstream = upstream
        self._script = script
        self._first = 0

    def begin(self) -> None:
        self.plays()
        self.upstream.refusals.clear()

    def plays(self, *steps: Any) -> None:
        """Answer the next requests with these, in order."""
        self._script[:] = steps
        self._first = len(self.upstream.bodies)

    @property
    def bodies(self) -> list[Any]:
        """The requests to the upstream since the script began."""
        return self.upstream.bodies[self._first :]

    def wait_for(self, outcome: str) -> None:
        """Until the last request to the upstream has ended so."""
        last = self.upstream.requests[-1]
        deadline = time.monotonic() + _SECONDS
        while last.outcome == "open" and time.monotonic() < deadline:
            time.sleep(0.01)  # the upstream lives in another thread, and its event belongs to that thread's loop
        assert last.outcome == outcome

    @property
    def offered(self) -> list[str]:
        """Names of the tools in the last request to the upstream."""
        return names_of(self.bodies[-1])


def names_of(body: Any) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", ())]


@contextlib.contextmanager
def serving(folder: Path, *, wire: Wire | None = None) -> Iterator[Stage]:
    """A server whose upstream plays what a test says. `wire`: the API of the upstream; None: chat completions."""
    script: list[Any] = []

    def next_step(body: Any) -> Any:
        step = script.pop(0)
        return step(body) if callable(step) else step

    options: dict[str, Any] = {} if wire is None else {"wire": wire}
    words = () if wire is None else ("--model", f"openai-{wire.name}:{MODEL}")
    with (
        ScriptedUpstream(next_step, **options) as upstream,
        toolcaddie_serve(folder, "--upstream", upstream.base_url, *words, OPENAI_API_KEY="test-key") as address,
    ):
        yield Stage(address, upstream, script)


@contextlib.contextmanager
def toolcaddie_serve(folder: Path, *words: str, **environ: str) -> Iterator[str]:
    """The command on a free port; gives the server's address."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TOOLCADDIE_", "OPENAI_"))}
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "toolcaddie", "serve", "--port", "0", "--json", *words],
            cwd=folder,
            env={**clean, **home_environment(folder), **environ},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert process.stdout is not None
        try:
            yield str(_first_json(process.stdout)["url"])
        finally:
            process.terminate()
            process.communicate(timeout=_SECONDS)


def _first_json(lines: IO[str]) -> Any:
    output = ""
    for line in lines:
        output += line
        if line.startswith("}"):
            break
    return json.loads(output)


_AREAS = (
    "invoice",
    "shipment",
    "customer",
    "ticket",
    "contract",
    "supplier",
    "vehicle",
    "warehouse",
    "campaign",
    "payroll",
)
_ACTIONS = ("create", "delete", "list", "update", "approve", "export", "archive", "print", "merge", "share")


def many_names(count: int) -> Sequence[str]:
    """Names of an office's tools: `create_invoice`, and from the hundredth on `create_invoice_2`."""
    pairs = [f"{action}_{area}" for area in _AREAS for action in _ACTIONS]
    return [pairs[n % 100] + (f"_{n // 100 + 1}" if n >= 100 else "") for n in range(count)]


def many_tools(count: int) -> list[dict[str, Any]]:
    """So many definitions in OpenAI's shape."""
    return [definition(name) for name in many_names(count)]


def definition(name: str, description: str = "", properties: dict[str, Any] | None = None) -> dict[str, Any]:
    """One definition in OpenAI's shape."""
    schema = {"type": "object", "properties": properties or {"id": {"type": "string"}}}
    text = description or f"{name.replace('_', ' ').capitalize()} of the office."
    return {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
