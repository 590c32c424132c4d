"""Writes values of parameters in the styles of OpenAPI (https://spec.openapis.org/oas/v3.1.1.html#style-values).

Values come from a model and are hostile. They are percent-encoded, so that no value can leave its place in an address or header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from toolcaddie.sources.openapi.operations import Parameter

Pair = tuple[str, str]

_RESERVED = "!$'()*,/:;?@"
"""Reserved characters that a value may contain unencoded if the document allows it, without those that would end the value."""
_DELIMITERS = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}


class UnusableValue(ValueError):
    """A value that cannot be put into its place."""


def text_of(value: Any) -> str:
    """Returns the text of a single value; lists and objects inside another value are written as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return msgspec.json.encode(value).decode()


def path_text(parameter: Parameter, value: Any) -> str:
    """Returns the encoded text that replaces `{name}` in a path. Raises `UnusableValue` for a text that would change the path."""
    separator, prefix = {"label": (".", "."), "matrix": (";", ";")}.get(parameter.style, (",", ""))
    name = _encoded(parameter.name)
    matrix = parameter.style == "matrix"
    if parameter.is_json:
        return _encoded(text_of_json(value))
    if isinstance(value, list):
        texts = [_encoded(text_of(each)) for each in value]
        if matrix:
            body = (
                separator.join(f"{name}={text}" for text in texts) if parameter.explode else f"{name}={','.join(texts)}"
            )
        else:
            body = (separator if parameter.explode else ",").join(texts)
    elif isinstance(value, Mapping):
        body = _object(value, parameter.explode, separator, encode=_encoded)
        body = body if not matrix or parameter.explode else f"{name}={body}"
    else:
        body = f"{name}={_encoded(text_of(value))}" if matrix else _encoded(text_of(value))
    _check_segment(parameter, value, body)
    return prefix + body


def _check_segment(parameter: Parameter, value: Any, encoded: str) -> None:
    """Raises `UnusableValue` for an empty text, and for a text that a server could take for another path."""
    if not encoded:
        raise UnusableValue(f"{parameter.name!r} is part of the path and must not be empty")
    plain = text_of(value)
    if any(part in (".", "..") for part in re.split(r"[/\\]", plain)):
        raise UnusableValue(
            f"{parameter.name!r} is part of the path and must not be, or contain, the folder '.' or '..'"
        )


def _object(value: Mapping[str, Any], explode: bool, separator: str, *, encode: Any) -> str:
    pairs = [(encode(str(key)), encode(text_of(each))) for key, each in value.items()]
    if explode:
        return str(separator.join(f"{key}={text}" for key, text in pairs))
    return ",".join(part for pair in pairs for part in pair)


def query_pairs(parameter: Parameter, value: Any) -> Iterator[Pair]:
    """Yields encoded names and values for a query."""
    name = _encoded(parameter.name)
    if parameter.is_json:
        yield name, _encoded(text_of_json(value))
    elif parameter.style == "deepObject" and isinstance(value, Mapping):
        yield from _deep(name, value, parameter)
    elif isinstance(value, list):
        yield from _list_pairs(name, value, parameter)
    elif isinstance(value, Mapping):
        yield from _object_pairs(name, value, parameter)
    elif value is not None:
        yield name, _value(value, parameter)


def _list_pairs(name: str, value: list[Any], parameter: Parameter) -> Iterator[Pair]:
    texts = [_value(each, parameter) for each in value]
    if parameter.explode:
        yield from ((name, text) for text in texts)
    elif texts:
        yield name, _joined(texts, parameter)


def _joined(texts: list[str], parameter: Parameter) -> str:
    """Returns the texts with the separator of their style. Raises `UnusableValue` if one contains that separator."""
    separator = _DELIMITERS.get(parameter.style, ",")
    if any(separator in text for text in texts):
        raise UnusableValue(
            f"a value of {parameter.name!r} contains {unquote(separator)!r}, which separates its values"
        )
    return separator.join(texts)


def _object_pairs(name: str, value: Mapping[str, Any], parameter: Parameter) -> Iterator[Pair]:
    pairs = [(_encoded(str(key)), _value(each, parameter)) for key, each in value.items() if each is not None]
    if parameter.explode and parameter.style == "form":
        yield from pairs
    elif pairs:
        yield name, _joined([part for pair in pairs for part in pair], parameter)


def _deep(name: str, value: Mapping[str, Any], parameter: Parameter) -> Iterator[Pair]:
    for key, each in value.items():
        inner = f"{name}%5B{_encoded(str(key))}%5D"
        if isinstance(each, Mapping):
            yield from _deep(inner, each, parameter)
        elif isinstance(each, list):
            yield from ((inner, _value(item, parameter)) for item in each)
        elif each is not None:
            yield inner, _value(each, parameter)


def header_text(parameter: Parameter, value: Any) -> str:
    """Returns the text of a header. Raises `UnusableValue` for a text that a header cannot contain."""
    if parameter.is_json:
        text = text_of_json(value)
    elif isinstance(value, list):
        text = ",".join(map(text_of, value))
    elif isinstance(value, Mapping):
        text = _object(value, parameter.explode, ",", encode=str)
    else:
        text = text_of(value)
    if re.search(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]", text):
        raise UnusableValue(f"{parameter.name!r} is a header and must not contain line breaks or control characters")
    return text


def cookie_pairs(parameter: Parameter, value: Any) -> Iterator[Pair]:
    """Yields encoded names and values for the header `Cookie`."""
    name = _encoded(parameter.name)
    if parameter.is_json:
        yield name, _encoded(text_of_json(value))
    elif isinstance(value, list):
        texts = [_encoded(text_of(each)) for each in value]
        yield from ((name, text) for text in texts) if parameter.explode else iter([(name, ",".join(texts))])
    elif isinstance(value, Mapping) and parameter.explode:
        yield from ((_encoded(str(key)), _encoded(text_of(each))) for key, each in value.items())
    elif isinstance(value, Mapping):
        yield name, _object(value, False, ",", encode=_encoded)
    elif value is not None:
        yield name, _encoded(text_of(value))


def text_of_json(value: Any) -> str:
    """Returns the value as JSON."""
    return msgspec.json.encode(value).decode()


def _value(value: Any, parameter: Parameter) -> str:
    return _encoded(text_of(value), _RESERVED if parameter.allow_reserved else "")


def _encoded(text: str, safe: str = "") -> str:
    try:
        return quote(text, safe=safe)
    except UnicodeEncodeError as error:
        raise UnusableValue("a text contains half of a surrogate pair, which cannot be sent") from error
