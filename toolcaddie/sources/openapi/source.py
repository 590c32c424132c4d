"""A tool source that is an HTTP API with an OpenAPI document. Its operations are the tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from toolcaddie.core.bounds import LARGE
from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import CircuitOpenError, ConfigError, OutboundError
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.guards.aside import aside
from toolcaddie.parts import Parts
from toolcaddie.sources.openapi.answers import result_of
from toolcaddie.sources.openapi.api import OpenApi, check_api
from toolcaddie.sources.openapi.credentials import CredentialLookup, Credentials, NoCredential
from toolcaddie.sources.openapi.document import Reading, read
from toolcaddie.sources.openapi.reading import read_bytes
from toolcaddie.sources.openapi.requests import request_of
from toolcaddie.sources.openapi.sending import Answer, Sender
from toolcaddie.sources.openapi.styles import UnusableValue
from toolcaddie.sources.openapi.tools import Route
from toolcaddie.util.log import Logger

log = Logger(__name__)

_READS = ("GET", "HEAD")
"""Methods of requests that may be sent twice."""
_SHOWN_PROBLEMS = 20
"""The largest number of problems of a document that are logged."""


class OpenApiSource:
    """The operations of one HTTP API as tools. Implements `ports.OpenableSource`.

    OpenApiSource(OpenApi(name="pets", document="pets.yaml", servers=("https://pets.example.com/v1",)))

    `open` reads the document. Raises `CatalogError` for a document that cannot be read, `ConfigError` for settings that do not
    fit it, and `OutboundError` if it cannot be fetched. `credentials` is asked for the credential of each call; if it returns
    None, the settings are used.
    """

    def __init__(
        self, api: OpenApi, parts: Parts | None = None, *, credentials: CredentialLookup | None = None
    ) -> None:
        self._api = check_api(api)
        self._parts = parts or Parts()
        self._lookup = credentials
        self._reading: Reading | None = None
        self._sender: Sender | None = None
        self._credentials: Credentials | None = None
        self._revision = 0

    @property
    def name(self) -> str:
        return self._api.name

    @property
    def api(self) -> OpenApi:
        return self._api

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def problems(self) -> Sequence[str]:
        """Sentences about operations that are missing and schemas that are shortened."""
        return self._reading.problems if self._reading else ()

    def tools(self) -> Sequence[Tool]:
        return self._reading.tools if self._reading else ()

    def categories(self) -> Sequence[Category]:
        return self._reading.categories if self._reading else ()

    async def open(self) -> None:
        """Reads the document and makes the tools."""
        await self.close()
        content = await read_bytes(self._api, self._parts)
        reading = await aside(read, content, self._api, self._parts.bounds)
        self._sender = Sender(self._api, self._parts)
        secrets, send = self._parts.secrets, self._sender.send
        self._credentials = Credentials(self._api, reading.schemes, secrets, send, self._lookup)
        self._reading = reading
        self._revision += 1
        for problem in reading.problems[:_SHOWN_PROBLEMS]:
            log.warning("openapi_document", source=self.name, problem=problem)
        uncallable = len(reading.tools) - len(reading.servers)
        if uncallable:
            log.warning("openapi_no_server", source=self.name, tools=uncallable, remedy=self._remedy())

    async def close(self) -> None:
        """Closes the connections. The tools stay listed until the document is read again."""
        sender, self._sender = self._sender, None
        if sender is not None:
            await sender.close()

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        """Calls the operation. Whatever goes wrong becomes a failed result."""
        reading = self._reading
        route = reading.routes.get(tool.name) if reading else None
        if reading is None or route is None:
            return failed(
                f"the API {self.name!r} no longer has the operation of {tool.name!r}; do without it", "revoked"
            )
        if self._sender is None or self._credentials is None:
            return failed(f"the source {self.name!r} of {tool.name!r} is not open; do without it", "revoked")
        server = reading.servers.get(tool.name)
        if server is None:
            return failed(f"{tool.name}: no server of this operation may be called; {self._remedy()}")
        try:
            return await self._call(
                route,
                server,
                arguments,
                context,
                self._credentials,
                self._sender,
                reads=tool.annotations.read_only is True,
            )
        except UnusableValue as error:
            return failed(f"{tool.name}: {error}", "invalid_arguments")
        except NoCredential as error:
            return failed(
                f"{tool.name}: the API asks for {error}, and there is no such credential for this caller (setting auth of the "
                f"source {self.name!r}); do without this tool"
            )
        except TimeoutError:
            return failed(
                f"{tool.name}: the API did not answer within {self._api.timeout:g} s{_doubt(route)}", "timeout"
            )
        except CircuitOpenError as error:
            return failed(f"{tool.name}: {error}; try again later, or do without it")
        except (OutboundError, ConfigError) as error:
            return failed(f"{tool.name}: {error}{_doubt(route) if isinstance(error, OutboundError) else ''}")

    async def _call(
        self,
        route: Route,
        server: str,
        arguments: Mapping[str, Any],
        context: RunContext,
        credentials: Credentials,
        sender: Sender,
        *,
        reads: bool,
    ) -> ToolResult:
        headers = self._headers()
        for is_last in (False, True):
            proofs = await credentials.proofs(route.operation, context.principal)
            request = await request_of(route, arguments, server, headers, proofs)
            answer = await sender.send(request, reads=reads and request.method in _READS)
            if is_last or not self._is_expired(answer, route):
                break
            credentials.forget_tokens()
        secrets = [secret for proof in proofs for secret in proof.secrets]
        secrets += [value for name, value in headers.items() if name in self._api.headers_from]
        result = partial(result_of, route.operation, answer, secrets, self._parts.bounds)
        return result() if len(answer.body) < LARGE else await aside(result)

    def _headers(self) -> dict[str, str]:
        """Returns the headers of the settings. Raises `ConfigError` for a variable that is not set."""
        named = {
            name: self._parts.secrets.require(variable, what=f"the header {name} for the OpenAPI source {self.name!r}")
            for name, variable in self._api.headers_from.items()
        }
        return {**self._api.headers, **named}

    def _is_expired(self, answer: Answer, route: Route) -> bool:
        """Returns True if the API refused a token that this source may replace."""
        names = {name for alternative in route.operation.security for name in alternative}
        return answer.status == 401 and any(self._api.auth[name].client_id for name in names if name in self._api.auth)

    def _remedy(self) -> str:
        return f'set servers = ["https://..."] for the source {self.name!r}'


def _doubt(route: Route) -> str:
    """Returns the end of a sentence about a failed request that may have changed something."""
    if route.operation.method in ("GET", "HEAD", "OPTIONS", "QUERY"):
        return ""
    return ". The request may have taken effect: check that before you repeat it"
