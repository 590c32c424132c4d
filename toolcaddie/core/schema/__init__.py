"""JSON Schemas of tools: checks them, checks arguments against them, shortens them, and estimates their tokens."""

from __future__ import annotations

from toolcaddie.core.schema.check import argument_errors, check_schema, compile_schema, takes_long
from toolcaddie.core.schema.encoding import BYTES_PER_TOKEN, canonical_json, digest, estimate_tokens
from toolcaddie.core.schema.slim import slim_schema
from toolcaddie.core.schema.wire import definition_tokens, wire_definition

__all__ = [
    "BYTES_PER_TOKEN",
    "argument_errors",
    "canonical_json",
    "check_schema",
    "compile_schema",
    "definition_tokens",
    "digest",
    "estimate_tokens",
    "slim_schema",
    "takes_long",
    "wire_definition",
]
