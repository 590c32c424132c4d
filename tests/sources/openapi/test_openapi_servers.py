"""Which servers are called, the limits of their answers, and the source as the settings name it."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.sources.openapi.recording import Recorded, called, document, opened, operation, serving
from toolcaddie.core.errors import CatalogError, ConfigError, OutboundError
from toolcaddie.core.tool import ToolResult
from toolcaddie.parts import Parts
from toolcaddie.sources.named import load_catalog
from toolcaddie.sources.openapi import Credential, OpenApi, OpenApiSource

pytestmark = pytest.mark.anyio

PATHS = {"/a": {"get": operation()}}


# --- which servers are called ------------------------------------------------------------------------------------------------


async def test_without_servers_in_the_settings_a_file_calls_nobody_and_says_what_to_set(tmp_path: Path) -> None:
    async with serving() as api, opened(tmp_path, document(PATHS, servers=[{"url": api.url}])) as source:
        result = await called(source)
    assert result.is_error
    assert 'no server of this operation may be called; set servers = ["https://..."]' in result.text
    assert not api.requests


async def test_the_first_server_of_the_settings_is_called_whatever_the_document_names(tmp_path: Path) -> None:
    async with serving() as api, serving() as other:
        description = document(PATHS, servers=[{"url": other.url}])
        async with opened(tmp_path, description, servers=(f"{api.url}/v1", other.url)) as source:
            assert not (await called(source)).is_error
    assert ([request.target for request in api.requests], other.requests) == (["/v1/a"], [])


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/files/v2", True), ("/files", True), ("/", False), ("/files-of-others", False), ("/files/../admin", False)],
)
async def test_an_operations_own_server_must_lie_below_one_of_the_settings(
    tmp_path: Path, path: str, allowed: bool
) -> None:
    async with serving() as api, serving() as files:
        paths = {"/a": {"get": operation(servers=[{"url": f"{files.url}{path}"}])}}
        async with opened(tmp_path, document(paths), servers=(api.url, f"{files.url}/files")) as source:
            result = await called(source)
    assert result.is_error is not allowed
    assert [request.target for request in files.requests] == ([f"{path.rstrip('/')}/a"] if allowed else [])
    assert not api.requests


async def test_variables_of_a_server_have_their_default_values(tmp_path: Path) -> None:
    async with serving() as api:
        server = {"url": f"{api.url}/{{version}}", "variables": {"version": {"default": "v7"}}}
        paths = {"/a": {"get": operation(servers=[server])}}
        async with opened(tmp_path, document(paths), servers=(api.url,)) as source:
            await called(source)
    assert api.requests[0].target == "/v7/a"


@pytest.mark.parametrize("address", ["http://169.254.169.254/latest", "http://[::1]:9/", "http://localhost:9/"])
async def test_a_document_at_a_private_address_is_not_fetched_unless_the_settings_name_its_server(address: str) -> None:
    source = OpenApiSource(OpenApi(name="api", document=f"{address}/openapi.json"), Parts())
    with pytest.raises(OutboundError, match="address"):
        await source.open()


async def test_a_document_is_fetched_from_a_server_of_the_settings() -> None:
    def answer(request: Recorded) -> web.StreamResponse:
        return web.json_response(document(PATHS) if request.target == "/openapi.json" else {"ok": True})

    async with serving(answer) as api:
        source = OpenApiSource(OpenApi(name="api", document=f"{api.url}/openapi.json", servers=(api.url,)), Parts())
        await source.open()
        assert not (await called(source)).is_error
        await source.close()


@pytest.mark.parametrize(("status", "text"), [(404, "answered with status 404"), (500, "answered with status 500")])
async def test_a_document_that_is_not_there_is_an_error_without_the_query_of_its_address(
    status: int, text: str
) -> None:
    async with serving(lambda _: web.Response(status=status)) as api:
        address = f"{api.url}/openapi.json?key=secret"
        with pytest.raises(OutboundError, match=text) as caught:
            await OpenApiSource(OpenApi(name="api", document=address, servers=(api.url,)), Parts()).open()
    assert "secret" not in str(caught.value)


# --- redirects ---------------------------------------------------------------------------------------------------------------


def redirecting(to: str) -> Any:
    def answer(request: Recorded) -> web.StreamResponse:
        if request.target == "/b":
            return web.json_response({"ok": True})
        return web.Response(status=307, headers={"Location": to})

    return answer


KEY = {"main": {"type": "apiKey", "in": "header", "name": "X-Key"}}
SECURED = document(
    {"/a": {each: {**operation(security=[{"main": []}]), "operationId": each} for each in ("get", "post")}},
    components={"securitySchemes": KEY},
)
SETTINGS: dict[str, Any] = {"auth": {"main": Credential(token_env="TOKEN")}, "environ": {"TOKEN": "secret-key"}}


async def test_a_redirect_of_a_get_is_followed_on_the_same_host(tmp_path: Path) -> None:
    async with serving(redirecting("/b")) as api, opened(tmp_path, SECURED, servers=(api.url,), **SETTINGS) as source:
        result = await called(source, "get")
    assert (result.is_error, result.structured) == (False, {"ok": True})
    assert [request.headers["X-Key"] for request in api.requests] == ["secret-key"] * 2


async def redirected(folder: Path, to: str) -> ToolResult:
    async with serving(redirecting(to)) as api, opened(folder, SECURED, servers=(api.url,), **SETTINGS) as source:
        return await called(source, "get")


async def test_a_redirect_to_another_host_is_not_followed_and_gets_no_credential(tmp_path: Path) -> None:
    async with serving() as other:
        result = await redirected(tmp_path, f"{other.url.replace('127.0.0.1', 'localhost')}/b")
    assert result.is_error
    assert "redirects to another host" in result.text
    assert not other.requests


async def test_a_redirect_to_another_port_gets_no_credential(tmp_path: Path) -> None:
    async with serving() as other:
        result = await redirected(tmp_path, f"{other.url}/b")
    assert result.is_error
    assert not other.requests


async def test_a_redirect_of_a_post_is_a_failed_result_with_its_address(tmp_path: Path) -> None:
    async with serving(redirecting("/b")) as api, opened(tmp_path, SECURED, servers=(api.url,), **SETTINGS) as source:
        result = await called(source, "post")
    assert result.is_error
    assert "307 Temporary Redirect" in result.text
    assert "location: /b" in result.text
    assert len(api.requests) == 1


# --- answers -----------------------------------------------------------------------------------------------------------------


async def answered(folder: Path, response: Any, **settings: Any) -> Any:
    answer = response if callable(response) else lambda _: response
    async with serving(answer) as api, opened(folder, document(PATHS), servers=(api.url,), **settings) as source:
        return await called(source)


@pytest.mark.parametrize(
    ("status", "phrase"), [(404, "Not Found"), (422, "Unprocessable"), (503, "Service"), (599, "")]
)
async def test_an_error_of_the_api_is_a_result_that_the_model_reads(tmp_path: Path, status: int, phrase: str) -> None:
    body = {"message": "no such pet"}
    result = await answered(tmp_path, web.json_response(body, status=status, headers={"Retry-After": "3"}))
    assert (result.is_error, result.structured) == (True, body)
    assert result.text.startswith(f"GET /a answered with {status} {phrase}".strip())
    assert "retry-after: 3" in result.text
    assert "no such pet" in result.text


async def test_an_answer_without_content_says_so(tmp_path: Path) -> None:
    result = await answered(tmp_path, web.Response(status=204))
    assert (result.is_error, result.text) == (False, "GET /a answered with 204 No Content, without content.")


async def test_an_answer_above_the_limit_is_a_failed_result_that_names_the_setting(tmp_path: Path) -> None:
    result = await answered(tmp_path, web.Response(body=b"x" * 5000), max_response_bytes=4096)
    assert result.is_error
    assert "max_response_bytes" in result.text


async def test_a_compressed_bomb_stops_at_the_limit(tmp_path: Path) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    response = web.Response(body=bomb, headers={"Content-Encoding": "gzip"})
    result = await answered(tmp_path, response, max_response_bytes=1_000_000)
    assert result.is_error
    assert "max_response_bytes" in result.text


async def test_a_slow_answer_ends_at_the_timeout_and_warns_of_a_change_that_may_have_happened(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def handle(_: web.Request) -> web.StreamResponse:
        await gone.wait()
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    paths = {"/a": {each: {**operation(), "operationId": each} for each in ("get", "post")}}
    try:
        async with opened(tmp_path, document(paths), servers=(url,), timeout=0.2) as source:
            results = [await called(source, name) for name in ("get", "post")]
    finally:
        gone.set()
        await runner.cleanup()
    assert [result.error for result in results] == ["timeout", "timeout"]
    assert "did not answer within 0.2 s" in results[0].text
    assert ["may have taken effect" in result.text for result in results] == [False, True]


async def test_a_server_that_is_down_is_a_failed_result_without_the_query(tmp_path: Path) -> None:
    async with serving() as api:
        url = api.url
    query = {"name": "q", "in": "query", "schema": {"type": "string"}}
    async with opened(tmp_path, document({"/a": {"get": operation(query)}}), servers=(url,)) as source:
        result = await called(source, arguments={"q": "private"})
    assert result.is_error
    assert "cannot be reached" in result.text
    assert "private" not in result.text


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("application/json", b'{"a": ', '{"a": '),
        ("application/json", b"[" * 100_000, "[[["),
        ("text/plain; charset=latin-1", b"caf\xe9", "café"),
        ("text/plain; charset=no-such", b"caf\xc3\xa9", "café"),
        ("", b"plain", "plain"),
    ],
    ids=["broken-json", "deep-json", "charset", "unknown-charset", "no-type"],
)
async def test_an_answer_that_is_not_what_it_says_is_shown_as_text(
    tmp_path: Path, content_type: str, body: bytes, text: str
) -> None:
    result = await answered(tmp_path, web.Response(body=body, headers={"Content-Type": content_type}))
    assert not result.is_error
    assert result.text.startswith(text)
    assert result.structured is None


# --- settings ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"servers": ("ftp://x",)}, "a server is an address such as"),
        ({"servers": ("https://user:pw@x",)}, "a server is an address such as"),
        ({"servers": ("https://{tenant}.example.com",)}, "without user, query and variables in braces"),
        ({"headers": {"X-Api-Key": "k"}}, "looks like a secret; put it into an environment variable"),
        ({"headers": {"X": "a\r\nb"}}, "has characters that a header cannot have"),
        ({"headers_from": {"X Y": "V"}}, "is no name of a header"),
        ({"prefix": "a b"}, "a prefix is 1 to 40 letters"),
        ({"exclude": ("tag:none",)}, "fits no operation of the document"),
    ],
)
async def test_wrong_settings_are_errors_that_name_the_source(
    tmp_path: Path, settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        async with opened(tmp_path, document(PATHS), **settings):
            pass
    assert sentence in str(caught.value)
    assert "'api'" in str(caught.value)
    assert "user:pw" not in str(caught.value)


async def test_a_short_form_is_named_after_the_file_or_the_host() -> None:
    assert load_catalog("openapi:some/Pet Store.v1.yaml").name == "Pet-Store"
    assert load_catalog("openapi:https://api.example.com/openapi.json").name == "api-example-com"


async def test_a_broken_document_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "api.json").write_text('{"openapi": "3.1.0"')
    with pytest.raises(CatalogError, match="neither JSON nor YAML"):
        await OpenApiSource(OpenApi(name="api", document=str(tmp_path / "api.json")), Parts()).open()
