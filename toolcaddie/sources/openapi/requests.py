"""Makes the HTTP request of a call: address, headers and body."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from msgspec import Struct

from toolcaddie.sources.openapi.bodies import encoded_body
from toolcaddie.sources.openapi.operations import Parameter
from toolcaddie.sources.openapi.security import Proof
from toolcaddie.sources.openapi.styles import UnusableValue, cookie_pairs, header_text, path_text, query_pairs
from toolcaddie.sources.openapi.tools import BODY, Route

_ACCEPT = "application/json, */*;q=0.5"


class HttpRequest(Struct, frozen=True, kw_only=True):
    method: str
    address: str
    headers: Mapping[str, str]
    body: bytes | None = None

    def __repr__(self) -> str:
        """Omits headers and query, because they may contain credentials."""
        return f"HttpRequest({self.method} {self.address.partition('?')[0]})"


async def request_of(
    route: Route, arguments: Mapping[str, Any], server: str, headers: Mapping[str, str], proofs: Sequence[Proof]
) -> HttpRequest:
    """Returns the request of a call. Raises `UnusableValue` for an argument that cannot be sent. The path in a document may
    contain a query (`/responses?beta=true`)."""
    values = _values(route, arguments)
    _check_required(route, values, arguments)
    query = [pair for parameter, value in values["query"] for pair in query_pairs(parameter, value)]
    cookies = [pair for parameter, value in values["cookie"] for pair in cookie_pairs(parameter, value)]
    sent = {"Accept": _ACCEPT, **{each.name: header_text(each, value) for each, value in values["header"]}, **headers}
    for proof in proofs:
        pair = (quote(proof.name, safe=""), quote(proof.value, safe=""))
        if proof.location == "header":
            sent = {name: value for name, value in sent.items() if name.lower() != proof.name.lower()}
            sent[proof.name] = proof.value
        elif proof.location == "query":
            query = [*(each for each in query if each[0] != pair[0]), pair]
        else:
            cookies = [*(each for each in cookies if each[0] != pair[0]), pair]
    if cookies:
        sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies)
    body = None
    if BODY in arguments and route.operation.body is not None:
        sent["Content-Type"], body = await encoded_body(route, arguments[BODY])
    address = server.rstrip("/") + _path(route, {each.name: (each, value) for each, value in values["path"]})
    if query:
        address += ("&" if "?" in address else "?") + "&".join(f"{name}={value}" for name, value in query)
    return HttpRequest(method=route.operation.method, address=address, headers=sent, body=body)


def _values(route: Route, arguments: Mapping[str, Any]) -> dict[str, list[tuple[Parameter, Any]]]:
    """Returns the given parameters with their values, by their places. Raises `UnusableValue` for an unknown argument."""
    values: dict[str, list[tuple[Parameter, Any]]] = {"path": [], "query": [], "header": [], "cookie": []}
    for name, value in arguments.items():
        parameter = route.parameters.get(name)
        if parameter is not None:
            values[parameter.location].append((parameter, value))
        elif name != BODY or route.operation.body is None:
            raise UnusableValue(f"there is no argument {name[:80]!r}")
    return values


def _check_required(route: Route, values: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    missing = [name for name, parameter in route.parameters.items() if parameter.required and name not in arguments]
    if route.operation.body is not None and route.operation.body.required and BODY not in arguments:
        missing.append(BODY)
    if missing:
        raise UnusableValue(f"the argument {missing[0]!r} is missing")


def _path(route: Route, values: Mapping[str, tuple[Parameter, Any]]) -> str:
    pieces = re.split(r"\{([^{}]+)\}", route.operation.path.partition("#")[0])
    literal = [quote(piece, safe="/?!$&'()*+,;=:@%") for piece in pieces[::2]]
    texts = [path_text(*values[name]) for name in pieces[1::2]]
    path = literal[0] + "".join(text + piece for text, piece in zip(texts, literal[1:], strict=True))
    if any(unquote(segment) in (".", "..") for segment in path.partition("?")[0].split("/")):
        raise UnusableValue("the arguments make a path that contains '.' or '..'")
    return path
