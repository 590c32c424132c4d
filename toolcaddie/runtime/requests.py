"""Reads a request from the arguments of a caller, adds the bot that makes it, and checks the names in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcaddie.control.bots import Bots, unknown_tools
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.errors import RequestError
from toolcaddie.core.run import RunRequest
from toolcaddie.inputs.requests import RequestInput, request_from
from toolcaddie.util.replacing import replace


def read_request(argument: RequestInput, options: Mapping[str, Any], *, bots: Bots) -> RunRequest:
    """Returns the request. If bots are configured, its principal names one of them: its own, or else the default bot. Raises
    `RequestError` for a bot that does not exist."""
    request = request_from(argument, options)
    principal = bots.identified(request.principal)
    return request if principal is request.principal else replace(request, principal=principal)


def check_disabled(request: RunRequest, catalog: Catalog) -> None:
    """Raises `RequestError` if the request disables a tool that does not exist. `catalog`: the tools of its tenant."""
    client_names = {tool.name for tool in request.client_tools}
    own_names = [name for name in request.disabled_tools if name not in client_names]
    if unknown := list(unknown_tools("disabled_tools", own_names, catalog)):
        raise RequestError("; ".join(unknown), param="disabled_tools")
