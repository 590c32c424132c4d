"""`run_program`: runs a short Python program that calls other tools as functions. Each call is checked like any other call:
permissions, policy, limits."""

from __future__ import annotations

from collections.abc import Mapping

from toolcaddie.core.meta_names import RUN_PROGRAM
from toolcaddie.core.tool import Tool
from toolcaddie.meta.definition import meta_definition
from toolcaddie.ports.meta import MetaOffer

_DESCRIPTION = (
    "Run a Python program that calls your tools as async functions with keyword arguments: `await tool_name(argument=...)`. "
    "In names, write _ for a character that Python does not allow. "
    "Use it for many calls at once, or when only a part of large results matters. "
    "Run independent calls together: `await asyncio.gather(...)` (import asyncio). "
    "A function returns the tool's value, or its text; json.loads reads JSON. A failed call raises RuntimeError. "
    "You read only what the program prints and the value of its last line. "
    "No files, network or packages; json, re, math, datetime and asyncio can be imported."
)


class RunProgram:
    name = RUN_PROGRAM

    def definition(self, offer: MetaOffer) -> Tool:
        """Returns `run_program` as the model reads it. `offer`: the settings on which definitions of meta tools depend."""
        return meta_definition(
            RUN_PROGRAM,
            "Run a program",
            _DESCRIPTION,
            {"code": {"type": "string", "description": "The program."}},
            required=["code"],
            read_only=False,
        )

    def code(self, arguments: Mapping[str, object]) -> str:
        """Returns the text of the program."""
        return str(arguments["code"])
