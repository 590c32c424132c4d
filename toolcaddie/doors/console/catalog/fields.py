"""A form made from the JSON Schema of a tool, and the arguments in a form that was sent.

A field without a text is left out of the arguments. What a person writes is not checked here: the same check as for a model's
call says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from toolcaddie.core.errors import RequestError
from toolcaddie.core.schema.encoding import shorten
from toolcaddie.core.tool import JsonObject
from toolcaddie.util.replacing import replace

PREFIX = "arg."
"""The names of the fields of arguments begin with it."""
WHOLE = "arguments"
"""The field with all arguments as one JSON object."""

MOST_FIELDS = 40
"""The largest number of parameters for which there are fields; with more, all arguments are written as JSON."""

Kind = Literal["text", "number", "boolean", "choice", "json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of the form."""

    name: str
    """The parameter."""
    kind: Kind
    is_required: bool
    description: str = ""
    choices: Sequence[str] = ()
    """Of a choice: its values as JSON."""
    shown: Sequence[str] = ()
    """Of a choice: its values as people read them."""
    value: str = ""
    """The text in the field at first."""
    example: str = ""
    """The default of the schema as text; empty: it has none."""
    is_long: bool = False
    """True: a text of several lines."""


def fields_of(
    schema: JsonObject, given: Mapping[str, Any] | None = None, form: Mapping[str, str] | None = None
) -> Sequence[Field]:
    """Returns the fields for the parameters of a schema; none if it has too many, or none that are named. `given`: arguments that
    are in the form at first. `form`: a form that was sent, whose texts are in this one."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or len(properties) > MOST_FIELDS:
        return ()
    names = schema.get("required")
    required = names if isinstance(names, Sequence) and not isinstance(names, str) else ()
    fields = [
        _field(str(name), each if isinstance(each, Mapping) else {}, is_required=name in required, given=given or {})
        for name, each in properties.items()
    ]
    return [replace(field, value=(form or {}).get(f"{PREFIX}{field.name}", field.value)) for field in fields]


def _field(name: str, schema: JsonObject, *, is_required: bool, given: Mapping[str, Any]) -> Field:
    kind, choices = _kind(schema), _choices(schema)
    description = schema.get("description")
    value = _text(given[name], kind) if name in given else ""
    return Field(
        name=name,
        kind=kind,
        is_required=is_required,
        description=description if isinstance(description, str) else "",
        choices=[_json(each) for each in choices],
        shown=[each if isinstance(each, str) else _json(each) for each in choices],
        value=value,
        example=shorten(_text(schema["default"], kind), 200) if "default" in schema else "",
        is_long=kind == "text" and (_is_long(schema) or "\n" in value or len(value) > 200),
    )


def _kind(schema: JsonObject) -> Kind:
    if _choices(schema):
        return "choice"
    kind = schema.get("type")
    if isinstance(kind, list):  # such as ["string", "null"]: without a text, the argument is left out
        kinds = [each for each in kind if each != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    match kind:
        case "string":
            return "text"
        case "integer" | "number":
            return "number"
        case "boolean":
            return "boolean"
        case _:
            return "json"


def _choices(schema: JsonObject) -> Sequence[Any]:
    if "const" in schema:
        return (schema["const"],)
    values = schema.get("enum")
    return values if isinstance(values, Sequence) and not isinstance(values, str) else ()


def _is_long(schema: JsonObject) -> bool:
    longest = schema.get("maxLength")
    return isinstance(longest, int) and longest > 500


def _text(value: Any, kind: Kind) -> str:
    """Returns the text of a field for a value."""
    return value if kind in ("text", "number") and isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode("utf-8", "replace")


def arguments_in(form: Mapping[str, str], schema: JsonObject) -> Mapping[str, Any]:
    """Returns the arguments in a form. Raises `RequestError`, which names the field, for a text that cannot be read."""
    if form.get(WHOLE, "").strip():
        return _object(form[WHOLE])
    arguments: dict[str, Any] = {}
    for field in fields_of(schema):
        text = form.get(f"{PREFIX}{field.name}", "")
        if text or (field.is_required and field.kind == "text"):
            arguments[field.name] = text if field.kind == "text" else _value(text, field)
    return arguments


def _value(text: str, field: Field) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        if field.kind == "number":
            return text  # the check of the arguments says that it is no number
        raise RequestError(
            f'the argument {field.name[:64]!r} is not JSON: {error}; write it like [1, 2] or {{"name": "Ann"}}',
            param=field.name[:64],
        ) from error


def _object(text: str) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise RequestError(
            f'the arguments must be a JSON object, such as {{"name": "Ann"}}: {error}', param=WHOLE
        ) from error
