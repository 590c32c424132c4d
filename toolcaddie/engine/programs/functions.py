"""Turns tools into functions of a program: their names in Python, and declarations from which types are checked."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from toolcaddie.core.tool import CLIENT_SOURCE, Tool

_WORD = re.compile(r"[^\W\d]\w*")
_OTHER = re.compile(r"\W")
_TAKEN = frozenset({*keyword.kwlist, *dir(builtins), "asyncio", "json", "math", "re", "datetime", "typing"})
"""Names that mean something else in a program."""
_WRAPPED = "result"
_DEPTH = 6
"""Levels of a schema that a declaration describes; what lies deeper is `Any`."""
_MEMBERS = 60
"""The largest number of fields or values that a declaration lists of one object or enumeration."""
_HEADER = "from typing import Any, Literal, NotRequired, Required, TypedDict\n"


def function_name(tool_name: str) -> str:
    """Returns the name of a tool as a function: `shop.find-order` is `shop_find_order`."""
    name = _OTHER.sub("_", tool_name)
    if not name or name[0].isdigit() or name in _TAKEN:
        name = f"tool_{name}"
    return name


def functions_in(code: str, tools: Iterable[Tool]) -> Mapping[str, Tool]:
    """Returns those of the tools whose names occur in a program, by their names as functions. If two share a function name, the
    first one in the catalog has it, unless the other is so called itself. Tools that the caller runs are not among them."""
    words = set(_WORD.findall(code))
    functions: dict[str, Tool] = {}
    for tool in tools:
        name = function_name(tool.name)
        if name in words and tool.source != CLIENT_SOURCE and (name not in functions or tool.name == name):
            functions[name] = tool
    return functions


def is_wrapped(tool: Tool) -> bool:
    """Returns True if a tool's structured value is `{"result": value}`: structured values have to be objects, and this is how
    values of other types are sent. A program reads the value."""
    output = _object(tool.output_schema)
    return list(_object(output.get("properties"))) == [_WRAPPED] and _object(output["properties"][_WRAPPED]) != {}


def declarations(functions: Mapping[str, Tool]) -> str:
    """Returns the declarations of these functions, with types from the schemas of the tools."""
    stubs = _Stubs()
    for name, tool in functions.items():
        stubs.add(name, tool)
    return stubs.text()


class _Stubs:
    """Collects declarations of functions and of the types that they need."""

    def __init__(self) -> None:
        self._types: list[str] = []
        self._functions: list[str] = []
        self._numbers = 0

    def add(self, name: str, tool: Tool) -> None:
        schema = _object(tool.input_schema)
        defs = _object(schema.get("$defs"))
        required = set(_strings(schema.get("required")))
        properties = _object(schema.get("properties"))
        parameters = [
            f"{key}: {self._type(each, defs, _DEPTH)}" + ("" if key in required else " = ...")
            for key, each in list(properties.items())[:_MEMBERS]
            if _is_name(key)
        ]
        if len(parameters) < len(properties) or schema.get("additionalProperties", False) is not False:
            parameters.append("**others: Any")
        star = "*, " if parameters and not parameters[0].startswith("**") else ""
        result = "Any"
        if tool.output_schema is not None:
            output = _object(tool.output_schema)
            if is_wrapped(tool):
                output = {**output["properties"][_WRAPPED], "$defs": _object(output.get("$defs"))}
            result = self._type(output, _object(output.get("$defs")), _DEPTH, closed=True)
        self._functions.append(f"async def {name}({star}{', '.join(parameters)}) -> {result}: ...")

    def text(self) -> str:
        return "\n".join([_HEADER, *self._types, *self._functions, ""])

    def _type(self, schema: Any, defs: Mapping[str, Any], depth: int, *, closed: bool = False) -> str:
        """Returns the type of a schema in Python; `Any` for what Python cannot say, because then the schema itself is checked
        when the call is made. `closed`: objects have no other fields than the schema names, unless it says so."""
        if depth == 0 or not isinstance(schema, Mapping):
            return "Any"
        if (reference := schema.get("$ref")) is not None:
            return self._type(defs.get(str(reference).removeprefix("#/$defs/")), defs, depth - 1, closed=closed)
        if "const" in schema or "enum" in schema:
            return _literal([schema["const"]] if "const" in schema else schema["enum"])
        for key in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(key), Sequence) and not isinstance(options, str) and options:
                return _union([self._type(option, defs, depth - 1, closed=closed) for option in options[:_MEMBERS]])
        kind = schema.get("type")
        if isinstance(kind, Sequence) and not isinstance(kind, str):
            return _union([self._type({**schema, "type": one}, defs, depth - 1, closed=closed) for one in kind])
        match kind:
            case "string":
                return "str"
            case "integer":
                return "int"
            case "number":
                return "float"
            case "boolean":
                return "bool"
            case "null":
                return "None"
            case "array":
                return f"list[{self._type(schema.get('items'), defs, depth - 1, closed=closed)}]"
            case "object":
                return self._dict(schema, defs, depth, closed=closed)
        return "Any"

    def _dict(self, schema: Mapping[str, Any], defs: Mapping[str, Any], depth: int, *, closed: bool) -> str:
        """Returns the type of an object: a new `TypedDict` if its fields are known and no others may be given."""
        properties = _object(schema.get("properties"))
        if not properties or len(properties) > _MEMBERS or schema.get("additionalProperties", not closed) is not False:
            return "dict[str, Any]"
        required = set(_strings(schema.get("required")))
        fields = [
            f"{key!r}: {'Required' if key in required else 'NotRequired'}[{self._type(each, defs, depth - 1, closed=closed)}]"
            for key, each in properties.items()
        ]
        self._numbers += 1
        name = f"_Object{self._numbers}"
        self._types.append(f"{name} = TypedDict({name!r}, {{{', '.join(fields)}}})")
        return name


def _literal(values: Any) -> str:
    plain = isinstance(values, Sequence) and 0 < len(values) <= _MEMBERS and all(_is_plain(value) for value in values)
    return f"Literal[{', '.join(repr(value) for value in values)}]" if plain else "Any"


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, bool, int))


def _union(types: Sequence[str]) -> str:
    return "Any" if "Any" in types else " | ".join(dict.fromkeys(types))


def _is_name(key: Any) -> bool:
    return isinstance(key, str) and key.isidentifier() and not keyword.iskeyword(key)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        yield from (each for each in value if isinstance(each, str))
