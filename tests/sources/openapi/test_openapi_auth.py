"""Credentials: each kind in its place, renewed when refused or old, of the right principal, sent to configured servers alone, and
never shown."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web

from tests.sources.openapi.recording import Recorded, called, document, opened, operation, serving, tool_named
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.sources.openapi import Credential

pytestmark = pytest.mark.anyio

SECRET = "s3cret-token-value"
ENVIRON = {"TOKEN": SECRET, "OTHER": "other-token-value"}


def guarded(scheme: dict[str, Any], *scopes: str, paths: dict[str, Any] | None = None) -> dict[str, Any]:
    """A document whose one operation needs the scheme `main`."""
    return document(
        paths or {"/a": {"get": operation(security=[{"main": list(scopes)}])}},
        components={"securitySchemes": {"main": scheme}},
    )


async def recorded(folder: Path, scheme: dict[str, Any], credential: Credential, **more: Any) -> Recorded:
    """The request that a call sends."""
    async with serving() as api:
        settings = {"servers": (api.url,), "auth": {"main": credential}, "environ": ENVIRON, **more}
        async with opened(folder, guarded(scheme), **settings) as source:
            result = await called(source)
    assert not result.is_error, result.text
    return api.requests[0]


# --- each kind in its place --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "credential", "header", "value"),
    [
        ({"type": "http", "scheme": "bearer"}, Credential(token_env="TOKEN"), "Authorization", f"Bearer {SECRET}"),
        ({"type": "http", "scheme": "DPoP"}, Credential(token_env="TOKEN"), "Authorization", f"DPoP {SECRET}"),
        (
            {"type": "http", "scheme": "basic"},
            Credential(username="ann", password_env="TOKEN"),
            "Authorization",
            f"Basic {base64.b64encode(f'ann:{SECRET}'.encode()).decode()}",
        ),
        ({"type": "apiKey", "in": "header", "name": "X-Key"}, Credential(token_env="TOKEN"), "X-Key", SECRET),
        ({"type": "apiKey", "in": "cookie", "name": "sid"}, Credential(token_env="TOKEN"), "Cookie", f"sid={SECRET}"),
        ({"type": "oauth2", "flows": {}}, Credential(token_env="TOKEN"), "Authorization", f"Bearer {SECRET}"),
        ({"type": "openIdConnect"}, Credential(token_env="TOKEN"), "Authorization", f"Bearer {SECRET}"),
    ],
    ids=["bearer", "another-word", "basic", "key-header", "key-cookie", "oauth-token", "openid-token"],
)
async def test_a_credential_is_sent_in_the_place_of_its_scheme(
    tmp_path: Path, scheme: dict[str, Any], credential: Credential, header: str, value: str
) -> None:
    request = await recorded(tmp_path, scheme, credential)
    assert request.headers[header] == value


async def test_a_key_in_the_query_is_no_argument_of_the_tool(tmp_path: Path) -> None:
    scheme = {"type": "apiKey", "in": "query", "name": "key"}
    key = {"name": "key", "in": "query", "schema": {"type": "string"}}
    paths = {"/a": {"get": operation(key, security=[{"main": []}])}}
    async with serving() as api:
        settings: dict[str, Any] = {"servers": (api.url,), "auth": {"main": Credential(token_env="TOKEN")}}
        async with opened(tmp_path, guarded(scheme, paths=paths), environ=ENVIRON, **settings) as source:
            assert tool_named(source, "go").input_schema["properties"] == {}
            assert (await called(source, arguments={"key": "mine"})).is_error
            await called(source)
    assert [request.target for request in api.requests] == [f"/a?key={SECRET}"]


async def test_the_first_alternative_with_all_credentials_is_used(tmp_path: Path) -> None:
    schemes = {name: {"type": "apiKey", "in": "header", "name": f"X-{name}"} for name in ("a", "b", "c")}
    paths = {"/a": {"get": operation(security=[{"a": [], "b": []}, {"b": [], "c": []}, {"c": []}])}}
    auth = {"b": Credential(token_env="TOKEN"), "c": Credential(token_env="OTHER")}
    async with serving() as api:
        description = document(paths, components={"securitySchemes": schemes})
        async with opened(tmp_path, description, servers=(api.url,), auth=auth, environ=ENVIRON) as source:
            await called(source)
    headers = api.requests[0].headers
    assert ("X-a" in headers, headers["X-b"], headers["X-c"]) == (False, SECRET, ENVIRON["OTHER"])


async def test_security_of_the_document_holds_unless_the_operation_has_its_own(tmp_path: Path) -> None:
    paths = {"/a": {"get": operation(), "post": {**operation(security=[]), "operationId": "free"}}}
    scheme = {"type": "http", "scheme": "bearer"}
    description = {**guarded(scheme, paths=paths), "security": [{"main": []}]}
    async with serving() as api:
        settings: dict[str, Any] = {"servers": (api.url,), "auth": {"main": Credential(token_env="TOKEN")}}
        async with opened(tmp_path, description, environ=ENVIRON, **settings) as source:
            await called(source)
            await called(source, "free")
    assert ["Authorization" in request.headers for request in api.requests] == [True, False]


async def test_a_call_without_its_credential_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    description = guarded({"type": "http", "scheme": "bearer"})
    async with serving() as api, opened(tmp_path, description, servers=(api.url,)) as source:
        result = await called(source)
    assert result.is_error
    assert "the API asks for main, and there is no such credential for this caller" in result.text
    assert not api.requests


async def test_a_variable_that_is_not_set_is_named_before_anything_is_sent(tmp_path: Path) -> None:
    async with serving() as api:
        settings: dict[str, Any] = {"servers": (api.url,), "auth": {"main": Credential(token_env="MISSING_TOKEN")}}
        async with opened(tmp_path, guarded({"type": "http", "scheme": "bearer"}), **settings) as source:
            result = await called(source)
    assert result.is_error
    assert "MISSING_TOKEN" in result.text
    assert not api.requests


# --- whose credential --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("principal", "token"),
    [
        (Principal(id="ann"), "ann-token"),
        (Principal(id="bob", tenant="acme"), "bob-token"),
        (Principal(id="ann", tenant="acme"), "common-token"),
        (Principal(id="eve"), "common-token"),
    ],
    ids=["id", "tenant-and-id", "same-id-of-another-tenant", "nobody-named"],
)
async def test_a_principal_has_its_own_token(tmp_path: Path, principal: Principal, token: str) -> None:
    credential = Credential(token_env="COMMON", per_principal={"ann": "ANN", "acme/bob": "BOB"})
    environ = {"COMMON": "common-token", "ANN": "ann-token", "BOB": "bob-token"}
    async with serving() as api:
        settings: dict[str, Any] = {"servers": (api.url,), "auth": {"main": credential}, "environ": environ}
        async with opened(tmp_path, guarded({"type": "http", "scheme": "bearer"}), **settings) as source:
            await called(source, principal=principal)
    assert api.requests[0].headers["Authorization"] == f"Bearer {token}"


async def test_a_principal_without_a_token_is_refused_if_there_is_no_common_one(tmp_path: Path) -> None:
    credential = Credential(per_principal={"ann": "TOKEN"})
    async with serving() as api:
        settings: dict[str, Any] = {"servers": (api.url,), "auth": {"main": credential}, "environ": ENVIRON}
        async with opened(tmp_path, guarded({"type": "http", "scheme": "bearer"}), **settings) as source:
            assert (await called(source, principal=Principal(id="eve"))).is_error
            assert not (await called(source, principal=Principal(id="ann"))).is_error
    assert len(api.requests) == 1


async def test_the_library_may_look_credentials_up(tmp_path: Path) -> None:
    async def lookup(scheme: str, principal: Principal) -> str | None:
        return f"{scheme}-of-{principal.id}" if principal.id == "ann" else None

    async with serving() as api:
        settings: dict[str, Any] = {"servers": (api.url,), "auth": {"main": Credential(token_env="TOKEN")}}
        description = guarded({"type": "http", "scheme": "bearer"})
        async with opened(tmp_path, description, environ=ENVIRON, lookup=lookup, **settings) as source:
            await called(source, principal=Principal(id="ann"))
            await called(source, principal=Principal(id="bob"))
    assert [request.headers["Authorization"] for request in api.requests] == ["Bearer main-of-ann", f"Bearer {SECRET}"]


# --- OAuth client credentials ------------------------------------------------------------------------------------------------


class TokenServer:
    """An API behind tokens, and the server that issues them: each token is valid for `uses` calls."""

    def __init__(self, *, uses: int = 1_000, seconds: Any = 3600) -> None:
        self.uses, self.seconds, self.issued = uses, seconds, 0
        self.left = 0
        self.forms: list[dict[str, list[str]]] = []
        self.clients: list[str] = []

    def __call__(self, request: Recorded) -> web.StreamResponse:
        if request.target == "/token":
            self.forms.append(parse_qs(request.body.decode()))
            self.clients.append(base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode())
            self.issued, self.left = self.issued + 1, self.uses
            return web.json_response({"access_token": f"token-{self.issued}", "expires_in": self.seconds})
        valid = request.headers.get("Authorization") == f"Bearer token-{self.issued}" and self.left > 0
        self.left -= 1
        return web.json_response({"ok": valid}, status=200 if valid else 401)


FLOWS = {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "/token", "scopes": {}}}}
CLIENT = Credential(client_id="my client", client_secret_env="TOKEN")


async def results(
    folder: Path, answer: Callable[[Recorded], web.StreamResponse], calls: int, **more: Any
) -> list[bool]:
    """Makes calls one after the other. Returns which of them succeeded."""
    async with serving(answer) as api:
        settings = {"servers": (api.url,), "auth": {"main": CLIENT}, "environ": ENVIRON, **more}
        async with opened(folder, guarded(FLOWS, "read", "write"), **settings) as source:
            return [not (await called(source)).is_error for _ in range(calls)]


async def test_a_client_gets_one_token_for_many_calls_with_the_scopes_of_the_operation(tmp_path: Path) -> None:
    server = TokenServer()
    assert await results(tmp_path, server, 3) == [True] * 3
    assert (server.issued, server.clients) == (1, [f"my%20client:{SECRET}"])
    assert server.forms == [{"grant_type": ["client_credentials"], "scope": ["read write"]}]


async def test_scopes_of_the_settings_replace_those_of_the_operation(tmp_path: Path) -> None:
    server = TokenServer()
    credential = Credential(client_id="c", client_secret_env="TOKEN", scope="all")
    assert await results(tmp_path, server, 1, auth={"main": credential}) == [True]
    assert server.forms[0]["scope"] == ["all"]


async def test_a_refused_token_is_replaced_and_the_call_repeated_once(tmp_path: Path) -> None:
    server = TokenServer(uses=1)
    assert await results(tmp_path, server, 3) == [True] * 3
    assert server.issued == 3


async def test_a_token_near_its_end_is_replaced_before_it_is_used(tmp_path: Path) -> None:
    server = TokenServer(seconds=20)
    assert await results(tmp_path, server, 2) == [True, True]
    assert server.issued == 2


async def test_an_api_that_refuses_every_token_is_asked_twice_and_no_more(tmp_path: Path) -> None:
    server = TokenServer(uses=0)
    assert await results(tmp_path, server, 1) == [False]
    assert server.issued == 2


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"access_token": 5}', b'{"access_token": ""}', b'{"error": "invalid_client\\n"}', b"[" * 5000],
    ids=["empty", "list", "number", "empty-token", "error", "deep"],
)
async def test_an_answer_without_a_token_is_a_failed_result_that_quotes_nothing(tmp_path: Path, body: bytes) -> None:
    async with serving(lambda _: web.Response(body=body, content_type="application/json")) as api:
        settings: dict[str, Any] = {"servers": (api.url,), "auth": {"main": CLIENT}, "environ": ENVIRON}
        async with opened(tmp_path, guarded(FLOWS), **settings) as source:
            result = await called(source)
    assert result.is_error
    assert "the server of tokens gave none" in result.text
    assert [request.target for request in api.requests] == ["/token"]


@pytest.mark.parametrize("seconds", ["soon", True, None, -5, float("1e300")])
async def test_a_strange_lifetime_of_a_token_breaks_nothing(tmp_path: Path, seconds: Any) -> None:
    assert await results(tmp_path, TokenServer(seconds=seconds), 2) == [True, True]


async def test_a_document_cannot_send_the_clients_secret_to_a_server_of_its_own(tmp_path: Path) -> None:
    flows = {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://evil.example/token", "scopes": {}}}}
    with pytest.raises(ConfigError, match=r"sends the client's secret to 'https://evil\.example/token'.*set token_url"):
        async with opened(
            tmp_path, guarded(flows), servers=("https://api.example",), auth={"main": CLIENT}, environ=ENVIRON
        ):
            pass


async def test_the_settings_may_name_another_server_of_tokens(tmp_path: Path) -> None:
    issuer, server = TokenServer(), TokenServer()
    async with serving(issuer) as tokens, serving(server) as api:
        credential = Credential(client_id="c", client_secret_env="TOKEN", token_url=f"{tokens.url}/token")
        settings: dict[str, Any] = {"servers": (api.url,), "auth": {"main": credential}, "environ": ENVIRON}
        server.issued, server.left = 1, 5
        async with opened(tmp_path, guarded(FLOWS), **settings) as source:
            assert not (await called(source)).is_error
    assert (issuer.issued, len(api.requests)) == (1, 1)


# --- credentials are never shown ---------------------------------------------------------------------------------------------


async def test_no_secret_is_in_definitions_results_or_errors(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def repeating(request: Recorded) -> web.StreamResponse:
        shown = {"target": request.target, "headers": dict(request.headers)}
        return web.json_response(shown, status=400, headers={"Location": f"/x?{request.headers['X-Extra']}"})

    def hanging_up(_: Recorded) -> web.StreamResponse:
        raise asyncio.CancelledError

    scheme = {"type": "apiKey", "in": "query", "name": "key"}
    async with serving(repeating) as api:
        settings: dict[str, Any] = {
            "servers": (api.url,),
            "auth": {"main": Credential(token_env="TOKEN")},
            "headers_from": {"X-Extra": "OTHER"},
        }
        async with opened(tmp_path, guarded(scheme), environ=ENVIRON, **settings) as source:
            answer = await called(source)
            tool = tool_named(source, "go")
            api.answer = hanging_up
            failure = await called(source)
    assert SECRET in api.requests[0].target
    assert answer.is_error
    assert failure.is_error
    captured = capfd.readouterr()
    shown = "".join([str(tool), repr(source.api), str(answer), str(failure), captured.out, captured.err])
    assert "[hidden]" in answer.text
    assert not [value for value in ENVIRON.values() if value in shown]


async def test_a_basic_credential_that_the_api_repeats_is_hidden_in_both_forms(tmp_path: Path) -> None:
    def repeating(request: Recorded) -> web.StreamResponse:
        value = request.headers["Authorization"]
        return web.json_response({"sent": value, "clear": base64.b64decode(value.removeprefix("Basic ")).decode()})

    async with serving(repeating) as api:
        settings: dict[str, Any] = {
            "servers": (api.url,),
            "auth": {"main": Credential(username="ann", password_env="TOKEN")},
        }
        description = guarded({"type": "http", "scheme": "basic"})
        async with opened(tmp_path, description, environ=ENVIRON, **settings) as source:
            result = await called(source)
    assert json.loads(result.text) == {"sent": "Basic [hidden]", "clear": "ann:[hidden]"}
    assert result.structured == json.loads(result.text)


async def test_a_secret_with_a_line_break_is_refused_and_not_quoted(tmp_path: Path) -> None:
    async with serving() as api:
        settings: dict[str, Any] = {"servers": (api.url,), "auth": {"main": Credential(token_env="BAD")}}
        description = guarded({"type": "http", "scheme": "bearer"})
        async with opened(tmp_path, description, environ={"BAD": f"{SECRET}\r\nX: 1"}, **settings) as source:
            result = await called(source)
    assert result.is_error
    assert SECRET not in result.text
    assert not api.requests


# --- settings ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("auth", "sentence"),
    [
        ({"mian": Credential(token_env="T")}, "the document has no such security scheme; did you mean 'main'?"),
        ({"main": Credential()}, "names no secret; set token_env, password_env, client_secret_env or per_principal"),
        ({"main": Credential(client_id="c")}, "client_id needs client_secret_env"),
        ({"main": Credential(client_secret_env="S")}, "client_secret_env needs a client_id"),
        ({"main": Credential(client_id="c", client_secret_env="S", token_env="T")}, "give either client_id"),
        ({"main": Credential(client_id="c", client_secret_env="S")}, "client_id belongs to a scheme of type oauth2"),
        ({"main": Credential(username="u", password_env="P")}, "the scheme takes a token or a key; set token_env"),
        ({"main": Credential(token_env="T", token_url="ftp://x")}, "token_url is not an address"),
    ],
    ids=["unknown", "empty", "no-secret", "no-client", "both", "not-oauth", "not-basic", "address"],
)
async def test_wrong_credentials_in_the_settings_are_errors_that_name_the_place(
    tmp_path: Path, auth: dict[str, Credential], sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        async with opened(tmp_path, guarded({"type": "http", "scheme": "bearer"}), auth=auth):
            pass
    assert sentence in str(caught.value)
    assert "'api'" in str(caught.value)


async def test_a_credential_for_a_scheme_of_another_type_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="send the credential with headers_from"):
        async with opened(tmp_path, guarded({"type": "mutualTLS"}), auth={"main": Credential(token_env="T")}):
            pass
