"""Answers the questions that MCP servers ask their client during a call: a form for the user (elicitation), a request to the
model (sampling), the client's folders (roots). The settings decide; by default every question is declined, and the result of the
call says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import PurePath
from typing import Any

import mcp_types as types
from mcp.client.session import ClientRequestContext
from pydantic import FileUrl

from toolcaddie.sources.mcp.server import McpServer
from toolcaddie.util.log import Logger
from toolcaddie.util.text import visible_line

log = Logger(__name__)

Sampler = Callable[[types.CreateMessageRequestParams], Awaitable[types.CreateMessageResult]]
"""A function of the application that answers a request to the model. Without one, sampling is declined."""

ASIDES: ContextVar[list[str] | None] = ContextVar("mcp_asides", default=None)
"""Remarks for the result of the call that is in progress in this context."""

_SHOWN = 200


class Questions:
    """The answers for one server. `running` returns the remarks of all calls in progress."""

    def __init__(self, server: McpServer, sampler: Sampler | None, running: Callable[[], list[list[str]]]) -> None:
        self._server = server
        self._sampler = sampler
        self._running = running

    def callbacks(self) -> dict[str, Any]:
        """Returns the callbacks for a session. A question without a callback is not offered to the server at all, so most
        servers never ask it."""
        callbacks: dict[str, Any] = {"elicitation_callback": self.elicit}
        if self._sampler is not None:
            callbacks["sampling_callback"] = self.sample
        if self._server.roots:
            callbacks["list_roots_callback"] = self.list_roots
        return callbacks

    def note(self, question: Any) -> None:
        """Remarks on a question that will be declined because nothing here answers it."""
        if isinstance(question, types.CreateMessageRequest) and self._sampler is None:
            self._remark("wanted an answer of the model (sampling); it was declined")
        elif isinstance(question, types.ListRootsRequest) and not self._server.roots:
            self._remark("asked for folders (roots); it was declined")

    async def elicit(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Answers a form or a link for the user."""
        policy = self._server.elicitation
        if policy == "defaults" and isinstance(params, types.ElicitRequestFormParams):
            content = _defaults(params.requested_schema)
            if content is not None:
                self._remark(f"asked {params.message!r}; it was answered with the defaults of its form")
                return types.ElicitResult(action="accept", content=content)
        self._remark(f"asked {params.message!r}; there is nobody to answer, so it was declined")
        return types.ElicitResult(action="cancel" if policy == "cancel" else "decline")

    async def sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """Passes a request to the model on to the application's function. If that fails, the server is not told why."""
        assert self._sampler is not None
        try:
            return await self._sampler(params)
        except (
            Exception
        ):  # the application's own function; its words are for the application's log, not for a remote server
            log.exception("mcp_sampler_raised", source=self._server.name)
            self._remark("wanted an answer of the model (sampling); the function that answers failed")
            return types.ErrorData(code=types.INTERNAL_ERROR, message="the client's model could not answer")

    async def list_roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        """Returns the folders of the settings."""
        folders = [PurePath(root) for root in self._server.roots]
        return types.ListRootsResult(
            roots=[types.Root(uri=FileUrl(folder.as_uri()), name=folder.name) for folder in folders]
        )

    def _remark(self, sentence: str) -> None:
        """Adds a remark to the result of the call that caused a question. Servers of the older generation do not say which
        call that is; if several are in progress, only the log has it."""
        remark = visible_line(f"the server {sentence}")[:_SHOWN]
        log.warning("mcp_question", source=self._server.name, question=remark)
        running = self._running()
        asides = ASIDES.get() or (running[0] if len(running) == 1 else None)
        if asides is not None:
            asides.append(remark)


def _defaults(schema: Any) -> dict[str, Any] | None:
    """Returns the defaults of a form; None: a required field has none."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return None
    content = {
        name: field["default"] for name, field in properties.items() if isinstance(field, dict) and "default" in field
    }
    missing = [name for name in schema.get("required") or () if name not in content]
    return None if missing else content
