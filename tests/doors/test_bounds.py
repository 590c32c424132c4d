"""What a stranger may send to `toolcaddie serve`: each bound by a request over a real socket to a real process."""

from __future__ import annotations

import http.client
import json
import select
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_cli_serve import _serving

SETTINGS = """
catalogs = ["gym"]
[bounds]
connections = 20
pipelined = 4
head_seconds = 0.5
body_seconds = 0.5
body = 400_000
bodies = 600_000
chunks = 1_000
values = 20_000
keys = 50
messages = 100
parts = 60
calls = 40
tools = 30
name = 100
description = 1_000
"""
"""Small, so that tests are fast; headers and URL as they ship."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Raw access to the server."""

    port: int

    def opened(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def send(self, sent: bytes) -> Any:
        """The answer to raw bytes."""
        with closing(self.opened()) as connection:
            connection.sendall(sent)
            return answer_on(connection)

    def chat(self, body: Any) -> Any:
        raw = body if isinstance(body, bytes) else json.dumps({"model": "practice", **body}).encode()
        return self.send(chat_head(f"content-length: {len(raw)}") + raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    status: int
    headers: dict[str, str]
    body: Any
    closed: bool
    """Whether the server ends the connection."""

    @property
    def message(self) -> str:
        assert set(self.body["error"]) == {"message", "type", "param", "code"}, "this is the shape of OpenAI's errors"
        return str(self.body["error"]["message"])


def answer_on(connection: socket.socket) -> Answered:
    response = http.client.HTTPResponse(connection)
    response.begin()
    headers = {name.lower(): value for name, value in response.getheaders()}
    body = json.loads(response.read())
    return Answered(status=response.status, headers=headers, body=body, closed=headers.get("connection") == "close")


def chat_head(*lines: str) -> bytes:
    whole = ("POST /v1/chat/completions HTTP/1.1", "host: 127.0.0.1", "content-type: application/json", *lines)
    return "\r\n".join(whole).encode() + b"\r\n\r\n"


GET = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n"
HELLO = {"role": "user", "content": "hello"}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    home = tmp_path_factory.mktemp("bounds")
    (home / "toolcaddie.toml").write_text(SETTINGS)
    with _serving(home) as server:
        yield Door(port=int(server.told["url"].rsplit(":", 1)[1]))


# ---------------------------------------------------------------- before anybody is known


@pytest.mark.parametrize(
    ("sent", "status", "setting"),
    [
        pytest.param(GET + b"x: " + b"a" * 16_384 + b"\r\n\r\n", 431, "header_line", id="a long header"),
        pytest.param(GET + b"x: " + b"a" * 200_000, 431, "headers", id="a header without end"),
        pytest.param(GET + (b"x: " + b"a" * 8_000 + b"\r\n") * 9 + b"\r\n", 431, "headers", id="long headers together"),
        pytest.param(GET + b"a: b\r\n" * 128 + b"\r\n", 431, "header_count", id="many headers"),
        pytest.param(b"GET /" + b"a" * 8_192 + b" HTTP/1.1\r\n\r\n", 414, "url", id="a long URL"),
        pytest.param(b"GET /" + b"a" * 200_000, 414, "url", id="a URL without end"),
        pytest.param(b"\r\n" * 50_000, 431, "headers", id="empty lines without end"),
        pytest.param(
            chat_head("transfer-encoding: chunked") + b"5;" + b"x" * 200_000, 431, "headers", id="a chunk extension"
        ),
        pytest.param(
            chat_head("transfer-encoding: chunked") + b"0\r\nx: " + b"x" * 200_000, 431, "headers", id="a long trailer"
        ),
        pytest.param(
            chat_head("transfer-encoding: chunked") + b"0\r\n" + b"a: b\r\n" * 20_000, 431, "header", id="many trailers"
        ),
        pytest.param(
            chat_head("transfer-encoding: chunked") + b"1\r\na\r\n" * 2_000, 400, "chunks", id="a body of small chunks"
        ),
    ],
)
def test_what_is_too_much_is_refused_with_a_sentence_and_the_connection_closed(
    door: Door, sent: bytes, status: int, setting: str
) -> None:
    found = door.send(sent)
    assert (found.status, found.closed) == (status, True)
    assert f"(setting bounds.{setting}" in found.message


def test_what_is_no_http_is_refused_in_the_shape_of_every_other_error(door: Door) -> None:
    found = door.send(b"\x16\x03\x01 this is TLS\r\n\r\n")
    assert (found.status, found.closed) == (400, True)
    assert "not a valid HTTP request" in found.message


@pytest.mark.parametrize("sent", [b"", GET, GET + b"x: "], ids=["nothing", "a head without end", "half a header"])
def test_headers_that_do_not_arrive_are_not_waited_for(door: Door, sent: bytes) -> None:
    found = door.send(sent)
    assert (found.status, found.closed) == (408, True)
    assert "did not arrive within 0.5 seconds (setting bounds.head_seconds)" in found.message


def test_a_body_that_does_not_arrive_is_not_waited_for(door: Door) -> None:
    found = door.send(chat_head("content-length: 1000") + b'{"model"')
    assert (found.status, found.closed) == (408, True)
    assert "(setting bounds.body_seconds)" in found.message


def test_an_unfinished_body_of_a_page_that_needs_none_ends_with_its_connection(door: Door) -> None:
    with closing(door.opened()) as connection:
        connection.sendall(GET + b"content-length: 1000\r\n\r\nhalf")
        assert answer_on(connection).status == 200
        assert connection.recv(1) == b""


def test_ordinary_requests_follow_each_other_on_one_connection_also_pipelined(door: Door) -> None:
    with closing(door.opened()) as connection:
        for _ in range(3):
            connection.sendall(GET + b"\r\n")
            assert answer_on(connection).status == 200
        connection.sendall((GET + b"\r\n") * 3)
        assert [line for line in _lines(connection, 3) if line.startswith(b"HTTP/1.1 200")] == [b"HTTP/1.1 200 OK"] * 3


def _lines(connection: socket.socket, answers: int) -> list[bytes]:
    said = b""
    while said.count(b'{"status":"ok"}') < answers:
        said += connection.recv(65_536)
    return said.replace(b"}HTTP", b"}\r\nHTTP").split(b"\r\n")


def test_a_thousand_requests_at_once_on_one_connection_end_it(door: Door) -> None:
    with closing(door.opened()) as connection:
        connection.sendall((GET + b"\r\n") * 1_000)
        said = b""
        try:
            while piece := connection.recv(65_536):
                said += piece
        except ConnectionResetError:
            pass
    assert said.count(b"HTTP/1.1 200") < 100


def test_a_client_that_offers_http_2_is_answered_in_http_1(door: Door) -> None:
    upgrade = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n"
    assert door.send(GET + upgrade).status == 200


def test_headers_in_many_small_pieces_are_read(door: Door) -> None:
    with closing(door.opened()) as connection:
        for sign in GET + b"\r\n":
            connection.sendall(bytes([sign]))
        assert answer_on(connection).status == 200


def test_a_newcomer_takes_the_place_of_the_connection_that_waits_longest(door: Door) -> None:
    waiting = [door.opened() for _ in range(20)]
    try:
        assert door.send(GET + b"\r\n").status == 200
        ended, _, _ = select.select(waiting, [], [], 5)
        assert 1 <= len(ended) < len(waiting)
    finally:
        for connection in waiting:
            connection.close()


# ---------------------------------------------------------------- bodies


def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_sent(door: Door) -> None:
    with closing(door.opened()) as connection:
        connection.sendall(chat_head("content-length: 400001"))
        found = answer_on(connection)
    assert found.status == 413
    assert found.message == "the body is too large; at most 400,000 bytes are accepted (setting bounds.body)"


def test_a_body_of_unknown_length_is_refused_as_soon_as_it_is_too_large(door: Door) -> None:
    found = door.send(chat_head("transfer-encoding: chunked") + (b"8000\r\n" + b" " * 32_768 + b"\r\n") * 20)
    assert found.status == 413
    assert "(setting bounds.body)" in found.message


def test_unfinished_bodies_fill_no_memory_and_small_requests_pass_beside_them(door: Door) -> None:
    held = [door.opened() for _ in range(5)]
    try:
        for connection in held:
            connection.sendall(chat_head("content-length: 400000") + b" " * 390_000)
        refused = [answer_on(connection) for connection in held]
        assert {found.status for found in refused} == {503, 408}
        busy = next(found for found in refused if found.status == 503)
        assert busy.headers["retry-after"] == "1"
        assert "(setting bounds.bodies)" in busy.message
    finally:
        for connection in held:
            connection.close()


def test_a_small_request_passes_while_large_bodies_fill_everything(door: Door) -> None:
    held = [door.opened() for _ in range(3)]
    try:
        for connection in held:
            connection.sendall(chat_head("content-length: 400000") + b" " * 300_000)
        assert door.chat({"messages": [HELLO]}).status == 200
    finally:
        for connection in held:
            connection.close()


def test_the_room_of_a_body_is_free_again_after_it(door: Door) -> None:
    body = {"messages": [{"role": "user", "content": "a" * 380_000}]}
    assert [door.chat(body).status for _ in range(4)] == [200] * 4


# ---------------------------------------------------------------- chat requests


def a_tool(name: str, description: str = "") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {}}}


def calling(count: int, name: str = "find_member") -> dict[str, Any]:
    function = {"name": name, "arguments": "{}"}
    calls = [{"id": f"call_{number}", "type": "function", "function": function} for number in range(count)]
    return {"role": "assistant", "content": None, "tool_calls": calls}


@pytest.mark.parametrize(
    ("body", "setting", "param"),
    [
        pytest.param({"messages": [HELLO] * 101}, "messages", "messages", id="messages"),
        pytest.param({"messages": [HELLO, calling(41)]}, "calls", "messages", id="calls"),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}] * 61}]},
            "parts",
            "messages",
            id="parts",
        ),
        pytest.param(
            {"messages": [HELLO, calling(1, "n" * 101)]},
            "name",
            "messages[1].tool_calls[0].function.name",
            id="name of a call",
        ),
        pytest.param(
            {"messages": [HELLO], "tools": [a_tool(f"t{number}") for number in range(31)]}, "tools", "tools", id="tools"
        ),
        pytest.param(
            {"messages": [HELLO], "tools": [a_tool("n" * 101)]}, "name", "tools[0].function.name", id="name of a tool"
        ),
        pytest.param(
            {"messages": [HELLO], "tools": [a_tool("n", "d" * 1_001)]},
            "description",
            "tools[0].function.description",
            id="description",
        ),
        pytest.param({"messages": [HELLO], **{f"k{number}": 1 for number in range(50)}}, "keys", None, id="keys"),
        pytest.param({"messages": [HELLO], "x": [[]] * 80_000}, "values", None, id="values"),
        pytest.param(
            b'{"x":' + b"[" * 129 + b"]" * 129 + b',"y":"' + b"a" * 270_000 + b'"}', "depth", None, id="depth"
        ),
    ],
)
def test_a_request_that_holds_too_much_is_refused_with_the_field_and_the_setting(
    door: Door, body: Any, setting: str, param: str | None
) -> None:
    found = door.chat(body)
    assert found.status == 400
    assert f"(setting bounds.{setting})" in found.message
    assert found.body["error"]["param"] == param


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [HELLO] * 100},
        {"messages": [HELLO], "tools": [a_tool("n" * 100, "d" * 1_000)]},
        {"messages": [{"role": "user", "content": '[{"a, b": [' * 30_000}]},
    ],
    ids=["messages", "names", "a text full of commas and brackets"],
)
def test_a_request_just_within_the_bounds_is_answered(door: Door, body: Any) -> None:
    assert door.chat(body).status == 200


def test_brackets_within_brackets_are_a_refusal_also_where_they_are_few(door: Door) -> None:
    for depth in (200, 900, 5_000, 100_000):
        value = b"[" * depth + b"]" * depth
        found = door.chat(b'{"model":"practice","messages":[{"role":"user","content":"x"}],"metadata":' + value + b"}")
        assert found.status in (200, 400), depth
