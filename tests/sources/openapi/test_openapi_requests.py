"""Requests that a call sends: where its arguments go, in which form, and which values are refused."""

from __future__ import annotations

import asyncio
import base64
import email
import email.policy
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.sources.openapi.recording import body, called, document, opened, operation, serving, tool_named

pytestmark = pytest.mark.anyio

COLORS = ["blue", "black", "brown"]
RGB = {"R": 100, "G": 200, "B": 150}


def parameter(name: str, place: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": {}, **more}


async def target(folder: Path, path: str, *parameters: dict[str, Any], **arguments: Any) -> str:
    """Returns the path and query of the request that a call sends."""
    async with serving() as api:
        description = document({path: {"get": operation(*parameters)}})
        async with opened(folder, description, servers=(api.url,)) as source:
            result = await called(source, arguments=arguments)
    assert not result.is_error, result.text
    return api.requests[0].target


@pytest.mark.parametrize(
    ("style", "explode", "value", "expected"),
    [
        ("simple", False, "blue", "blue"),
        ("simple", False, COLORS, "blue,black,brown"),
        ("simple", False, RGB, "R,100,G,200,B,150"),
        ("simple", True, RGB, "R=100,G=200,B=150"),
        ("label", False, "blue", ".blue"),
        ("label", False, COLORS, ".blue,black,brown"),
        ("label", True, COLORS, ".blue.black.brown"),
        ("label", False, RGB, ".R,100,G,200,B,150"),
        ("label", True, RGB, ".R=100.G=200.B=150"),
        ("matrix", False, "blue", ";color=blue"),
        ("matrix", False, COLORS, ";color=blue,black,brown"),
        ("matrix", True, COLORS, ";color=blue;color=black;color=brown"),
        ("matrix", False, RGB, ";color=R,100,G,200,B,150"),
        ("matrix", True, RGB, ";R=100;G=200;B=150"),
    ],
)
async def test_a_path_parameter_is_written_in_its_style(
    tmp_path: Path, style: str, explode: bool, value: Any, expected: str
) -> None:
    color = parameter("color", "path", style=style, explode=explode)
    assert await target(tmp_path, "/a/{color}/z", color, color=value) == f"/a/{expected}/z"


@pytest.mark.parametrize(
    ("style", "explode", "value", "expected"),
    [
        ("form", True, "blue", "color=blue"),
        ("form", True, COLORS, "color=blue&color=black&color=brown"),
        ("form", False, COLORS, "color=blue,black,brown"),
        ("form", True, RGB, "R=100&G=200&B=150"),
        ("form", False, RGB, "color=R,100,G,200,B,150"),
        ("spaceDelimited", False, COLORS, "color=blue%20black%20brown"),
        ("spaceDelimited", True, COLORS, "color=blue&color=black&color=brown"),
        ("pipeDelimited", False, COLORS, "color=blue%7Cblack%7Cbrown"),
        ("deepObject", True, RGB, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
        ("deepObject", True, {"a": {"b": 1}, "c": [1, 2]}, "color%5Ba%5D%5Bb%5D=1&color%5Bc%5D=1&color%5Bc%5D=2"),
        ("form", True, [], ""),
        ("form", True, None, ""),
        ("form", True, True, "color=true"),
        ("form", True, 2.0, "color=2"),
        ("form", True, 2.5, "color=2.5"),
        ("form", True, "a&b=c d+é", "color=a%26b%3Dc%20d%2B%C3%A9"),
        ("form", True, [{"x": 1}], "color=%7B%22x%22%3A1%7D"),
    ],
)
async def test_a_query_parameter_is_written_in_its_style(
    tmp_path: Path, style: str, explode: bool, value: Any, expected: str
) -> None:
    color = parameter("color", "query", style=style, explode=explode)
    sent = await target(tmp_path, "/a", color, color=value)
    assert sent.partition("?")[2] == expected


async def test_reserved_characters_stay_only_if_they_cannot_end_the_value(tmp_path: Path) -> None:
    free = parameter("q", "query", allowReserved=True)
    assert await target(tmp_path, "/a", free, q="a/b?c:d&e=f#g") == "/a?q=a/b?c:d%26e%3Df%23g"


async def test_a_parameter_with_content_is_written_as_json(tmp_path: Path) -> None:
    query = {"name": "filter", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}}
    assert await target(tmp_path, "/a", query, filter={"a": "b"}) == "/a?filter=%7B%22a%22%3A%22b%22%7D"


async def test_a_path_of_the_document_may_contain_a_query(tmp_path: Path) -> None:
    assert await target(tmp_path, "/a?beta=true", parameter("x", "query"), x=1) == "/a?beta=true&x=1"


async def test_parameters_of_one_name_in_different_places_do_not_collide(tmp_path: Path) -> None:
    places = [parameter("id", place) for place in ("path", "query", "header", "cookie")]
    description = document(
        {"/a/{id}": {"post": {**operation(*places, parameter("body", "query")), **body({"type": "object"})}}}
    )
    async with serving() as api, opened(tmp_path, description, servers=(api.url,)) as source:
        tool = tool_named(source, "go")
        assert set(tool.input_schema["properties"]) == {
            *("path_id", "query_id", "header_id", "cookie_id", "query_body", "body")
        }
        arguments = {"path_id": 1, "query_id": 2, "header_id": 3, "cookie_id": 4, "query_body": 5, "body": {"id": 6}}
        result = await called(source, arguments=arguments)
    assert not result.is_error
    [request] = api.requests
    assert request.target == "/a/1?id=2&body=5"
    assert (request.headers["id"], request.headers["cookie"]) == ("3", "id=4")
    assert json.loads(request.body) == {"id": 6}


async def test_a_parameter_of_an_operation_replaces_that_of_its_path(tmp_path: Path) -> None:
    common = parameter("q", "query", schema={"type": "string"})
    own = parameter("q", "query", schema={"type": "integer"})
    description = document({"/a": {"parameters": [common], "get": operation(own)}})
    async with opened(tmp_path, description) as source:
        assert tool_named(source, "go").input_schema["properties"]["q"]["type"] == "integer"


@pytest.mark.parametrize(
    "value", ["..", ".", "a/../b", "..\\b", ""], ids=["up", "here", "inside", "backslash", "empty"]
)
async def test_a_value_that_would_change_the_path_is_refused(tmp_path: Path, value: str) -> None:
    description = document({"/a/{id}": {"get": operation(parameter("id", "path"))}})
    async with serving() as api, opened(tmp_path, description, servers=(api.url,)) as source:
        result = await called(source, arguments={"id": value})
    assert (result.error, api.requests) == ("invalid_arguments", [])
    assert "'id' is part of the path" in result.text


@pytest.mark.parametrize(
    ("place", "value", "sent"),
    [("path", "a/b?c#d", "/a/a%2Fb%3Fc%23d"), ("path", "%2e%2e", "/a/%252e%252e")],
    ids=["delimiters", "encoded"],
)
async def test_a_value_cannot_leave_its_place_in_the_path(tmp_path: Path, place: str, value: str, sent: str) -> None:
    assert await target(tmp_path, "/a/{id}", parameter("id", place), id=value) == sent


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\x00b"], ids=["line", "null"])
async def test_a_header_takes_no_line_breaks(tmp_path: Path, value: str) -> None:
    description = document({"/a": {"get": operation(parameter("X-Note", "header"))}})
    async with serving() as api, opened(tmp_path, description, servers=(api.url,)) as source:
        result = await called(source, arguments={"X-Note": value})
    assert (result.error, api.requests) == ("invalid_arguments", [])


async def test_a_cookie_value_cannot_add_a_cookie(tmp_path: Path) -> None:
    description = document({"/a": {"get": operation(parameter("session", "cookie"))}})
    async with serving() as api, opened(tmp_path, description, servers=(api.url,)) as source:
        await called(source, arguments={"session": "a; admin=1"})
    assert api.requests[0].headers["cookie"] == "session=a%3B%20admin%3D1"


@pytest.mark.parametrize("name", ["Host", "Content-Length", "Authorization", "Cookie", "a b"])
async def test_headers_of_the_connection_are_no_parameters(tmp_path: Path, name: str) -> None:
    description = document({"/a": {"get": operation(parameter(name, "header"))}})
    async with opened(tmp_path, description) as source:
        assert tool_named(source, "go").input_schema["properties"] == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({}, "the argument 'id' is missing"), ({"id": 1, "x": 2}, "there is no argument 'x'")],
    ids=["missing", "unknown"],
)
async def test_arguments_that_do_not_fit_send_nothing(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    description = document({"/a/{id}": {"get": operation(parameter("id", "path"))}})
    async with serving() as api, opened(tmp_path, description, servers=(api.url,)) as source:
        result = await called(source, arguments=arguments)
    assert (result.error, result.text, api.requests) == ("invalid_arguments", f"go: {message}", [])


# --- bodies ------------------------------------------------------------------------------------------------------------------


async def sent_body(folder: Path, request_body: dict[str, Any], value: Any) -> tuple[str, bytes]:
    async with serving() as api:
        description = document({"/a": {"post": {**operation(), **request_body}}})
        async with opened(folder, description, servers=(api.url,)) as source:
            result = await called(source, arguments={"body": value})
    assert not result.is_error, result.text
    return api.requests[0].headers["content-type"], api.requests[0].body


async def test_json_is_preferred_among_the_media_types_of_a_body(tmp_path: Path) -> None:
    content = {"text/plain": {}, "multipart/form-data": {}, "application/json": {"schema": {"type": "object"}}}
    media_type, sent = await sent_body(tmp_path, {"requestBody": {"content": content}}, {"a": [1, None, "é"]})
    assert (media_type, json.loads(sent)) == ("application/json", {"a": [1, None, "é"]})


async def test_a_form_is_encoded_with_the_styles_of_its_fields(tmp_path: Path) -> None:
    encoding = {"tags": {"style": "form", "explode": False}, "where": {"style": "deepObject", "explode": True}}
    form = body({"type": "object"}, "application/x-www-form-urlencoded", encoding=encoding)
    value = {
        "name": "a b&c",
        "ids": [1, 2],
        "tags": ["x", "y"],
        "where": {"city": "Rome"},
        "more": {"k": 1},
        "no": None,
    }
    media_type, sent = await sent_body(tmp_path, form, value)
    assert media_type == "application/x-www-form-urlencoded"
    assert sent.decode() == "name=a+b%26c&ids=1&ids=2&tags=x,y&where%5Bcity%5D=Rome&more=%7B%22k%22%3A1%7D"


async def test_a_form_with_files_has_a_part_for_each_value(tmp_path: Path) -> None:
    properties = {
        "title": {"type": "string"},
        "meta": {"type": "object"},
        "photo": {"type": "string", "format": "binary"},
        "notes": {"type": "array", "items": {"type": "string", "format": "binary"}},
    }
    form = body(
        {"type": "object", "properties": properties},
        "multipart/form-data",
        encoding={"photo": {"contentType": "image/png"}},
    )
    photo = {"base64": base64.b64encode(b"\x89PNG").decode(), "filename": '../a"b.png'}
    value = {
        "title": "Hi",
        "meta": {"a": 1},
        "photo": photo,
        "notes": ["one", {"text": "two", "media_type": "text/plain"}],
    }
    media_type, sent = await sent_body(tmp_path, form, value)
    message = email.message_from_bytes(
        b"Content-Type: " + media_type.encode() + b"\r\n\r\n" + sent, policy=email.policy.HTTP
    )
    parts = [
        (
            part.get_param("name", header="content-disposition"),
            part.get_filename(),
            part.get_content_type(),
            part.get_payload(decode=True),
        )
        for part in message.iter_parts()  # type: ignore[attr-defined]
    ]
    assert parts == [
        ("title", None, "text/plain", b"Hi"),
        ("meta", None, "application/json", b'{"a":1}'),
        ("photo", ".._a_b.png", "image/png", b"\x89PNG"),
        ("notes", "notes", "application/octet-stream", b"one"),
        ("notes", "notes", "text/plain", b"two"),
    ]


@pytest.mark.parametrize(
    ("media_type", "value", "expected"),
    [
        ("text/plain", "plain é", "plain é".encode()),
        ("application/octet-stream", {"base64": "AAEC"}, b"\x00\x01\x02"),
        ("application/octet-stream", "words", b"words"),
        ("application/xml", "<a/>", b"<a/>"),
    ],
)
async def test_a_body_that_is_no_json_is_sent_as_it_is(
    tmp_path: Path, media_type: str, value: Any, expected: bytes
) -> None:
    schema = {"type": "string"} if "octet" not in media_type else {"type": "string", "format": "binary"}
    assert await sent_body(tmp_path, body(schema, media_type), value) == (media_type, expected)


@pytest.mark.parametrize(
    ("media_type", "value", "message"),
    [
        ("application/octet-stream", {"base64": "!"}, "base64 is not valid"),
        ("application/octet-stream", {"text": "x", "media_type": "a\r\nb"}, "media_type is not a media type"),
        ("multipart/form-data", "x", "the body is a form"),
        ("multipart/form-data", {"a\r\nb": "x"}, "must not contain line breaks"),
    ],
    ids=["base64", "type", "text", "name"],
)
async def test_a_body_that_cannot_be_written_sends_nothing(
    tmp_path: Path, media_type: str, value: Any, message: str
) -> None:
    description = document({"/a": {"post": {**operation(), **body({}, media_type)}}})
    async with serving() as api, opened(tmp_path, description, servers=(api.url,)) as source:
        result = await called(source, arguments={"body": value})
    assert (result.error, api.requests) == ("invalid_arguments", [])
    assert message in result.text


# --- answers -----------------------------------------------------------------------------------------------------------------


async def answered(folder: Path, answer: Any, **settings: Any) -> Any:
    """Returns the result of a call that the API answers with what `answer` returns."""
    description = document({"/a": {"get": operation()}})
    async with serving(answer) as api, opened(folder, description, servers=(api.url,), **settings) as source:
        return await called(source)


async def test_a_json_answer_is_text_and_value(tmp_path: Path) -> None:
    result = await answered(tmp_path, lambda _: web.Response(text='{"a": [1]}', content_type="application/json"))
    assert (result.text, result.structured, result.is_error) == ('{"a": [1]}', {"a": [1]}, False)


@pytest.mark.parametrize("status", [400, 404, 409, 500, 503])
async def test_an_error_of_the_api_is_a_result_that_the_model_reads(tmp_path: Path, status: int) -> None:
    result = await answered(tmp_path, lambda _: web.json_response({"detail": "because"}, status=status))
    assert (result.is_error, result.error, result.structured) == (True, "failed", {"detail": "because"})
    assert result.text.startswith(f"GET /a answered with {status} ")
    assert '{"detail": "because"}' in result.text


async def test_a_limited_caller_reads_when_to_come_back(tmp_path: Path) -> None:
    result = await answered(tmp_path, lambda _: web.Response(status=429, headers={"Retry-After": "7"}))
    assert result.text == "GET /a answered with 429 Too Many Requests, without content.\nretry-after: 7"


async def test_an_answer_without_content_says_so(tmp_path: Path) -> None:
    result = await answered(tmp_path, lambda _: web.Response(status=204))
    assert (result.text, result.is_error) == ("GET /a answered with 204 No Content, without content.", False)


async def test_a_picture_is_a_block_and_other_bytes_a_file(tmp_path: Path) -> None:
    picture = await answered(tmp_path, lambda _: web.Response(body=b"\x89PNG", content_type="image/png"))
    assert (picture.content[0].mime_type, base64.b64decode(picture.content[0].data)) == ("image/png", b"\x89PNG")
    file = await answered(tmp_path, lambda _: web.Response(body=b"\x00\x01", content_type="application/zip"))
    assert (file.content[0].name, file.content[0].size, file.content[0].mime_type) == ("a", 2, "application/zip")


async def test_an_answer_above_the_limit_is_refused(tmp_path: Path) -> None:
    result = await answered(tmp_path, lambda _: web.Response(body=b"x" * 2_000), max_response_bytes=1_000)
    assert result.is_error
    assert "larger than the 1,000 bytes allowed for it (setting max_response_bytes)" in result.text


async def test_a_broken_json_answer_is_a_text(tmp_path: Path) -> None:
    result = await answered(tmp_path, lambda _: web.Response(text='{"a": ', content_type="application/json"))
    assert (result.text, result.structured) == ('{"a": ', None)


async def test_an_api_that_is_not_there_fails_in_words(tmp_path: Path) -> None:
    async with serving() as api:
        address = api.url
    description = document({"/a": {"get": operation(), "post": {**operation(), "operationId": "make"}}})
    async with opened(tmp_path, description, servers=(address,)) as source:
        read, made = await called(source), await called(source, "make")
    assert f"{address} cannot be reached" in read.text
    assert "may have taken effect" not in read.text
    assert "The request may have taken effect" in made.text


async def test_an_api_that_does_not_answer_in_time_is_a_timeout(tmp_path: Path) -> None:
    async def hang(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _.read()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with (
        server,
        opened(tmp_path, document({"/a": {"get": operation()}}), servers=(address,), timeout=0.2) as source,
    ):
        result = await called(source)
    assert (result.error, result.text) == ("timeout", "go: the API did not answer within 0.2 s")


async def test_a_redirect_stays_on_the_host(tmp_path: Path) -> None:
    async with serving() as other:

        def answer(request: Any) -> web.Response:
            if request.target == "/a":
                return web.Response(status=302, headers={"Location": f"{other.url}/stolen"})
            return web.json_response({})

        result = await answered(tmp_path, answer)
    assert "redirects to another host" in result.text
    assert other.requests == []


async def test_paths_that_differ_behind_a_number_sign_are_operations_and_the_rest_of_the_path_is_sent(
    tmp_path: Path,
) -> None:
    paths = {"/a": {"get": operation()}, "/a#short": {"get": operation()}, "/a#{long}": {"get": operation()}}
    async with serving() as api, opened(tmp_path, document(paths), servers=(api.url,)) as source:
        tools = source.tools()
        for tool in tools:
            result = await called(source, tool.name)
            assert not result.is_error, result.text
    assert len({tool.name for tool in tools}) == 3
    assert [request.target for request in api.requests] == ["/a", "/a", "/a"]


async def test_a_body_of_any_media_type_is_sent_as_json_if_it_has_parts(tmp_path: Path) -> None:
    async with serving() as api:
        paths = {"/a": {"post": {**operation(), **body({"type": "object"}, "*/*")}}}
        async with opened(tmp_path, document(paths), servers=(api.url,)) as source:
            await called(source, arguments={"body": {"n": 1}})
    assert api.requests[0].headers["Content-Type"] == "application/json"
    assert json.loads(api.requests[0].body) == {"n": 1}
