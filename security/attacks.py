"""The hostile inputs of `security.hostile`: each sends something to a server and returns the answer. The beginning of a name is
the kind of attack: H4 headers and connections, H5 patterns, H8 bodies, H9 contents of requests and answers. Inputs that begin
with `allowed:` are as large as the bounds permit and must be answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from security.server import Answer, Server, chat_head, exchange, read_answer, serving
from toolcaddie.core.bounds import MEGABYTE
from toolcaddie.testing import ScriptedUpstream, call, garbage, say

GET = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n"

SETTINGS = """
model = "practice"
catalogs = ["gym"]
[bounds]
head_seconds = 2
body_seconds = 4
"""
"""The default settings, except that the server waits for a slow client for seconds and not for a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One hostile input. The server must answer with one of `statuses`."""

    name: str
    play: Callable[[Server], Awaitable[Answer]]
    statuses: tuple[int, ...]
    says: str = ""
    """Text that the error message must contain: usually the name of the setting."""
    prepare: Callable[[], None] = lambda: None
    """Builds the data to send, before anything is measured."""


# ---------------------------------------------------------------- hostile clients


@contextlib.asynccontextmanager
async def of_requests(*, quick: bool) -> AsyncIterator[tuple[Server, Sequence[Attack]]]:
    """Starts a server with the practice model, and yields it with the attacks by its clients."""
    async with serving(quiet=("/healthz", "chat"), settings=SETTINGS) as server:
        yield server, [*_of_headers(), *_of_bodies(quick), *_of_chats(), *_allowed()]


def _of_headers() -> list[Attack]:
    endless = chat_head(None)
    return [
        _sent("H4 one header of 100 MiB", 431, "bounds.headers", GET + b"x: ", b"a" * (100 * MEGABYTE)),
        _sent("H4 60 MiB of short header lines", 431, "bounds.header", GET, b"a: b\r\n" * (10 * MEGABYTE)),
        _sent("H4 one header of 17 KiB", 431, "bounds.header_line", GET + b"x: " + b"a" * 17_000 + b"\r\n\r\n"),
        _sent("H4 129 headers", 431, "bounds.header_count", GET + b"a: b\r\n" * 129 + b"\r\n"),
        _sent("H4 a URL of 50 MiB", 414, "bounds.url", b"GET /" + b"a" * (50 * MEGABYTE) + b" HTTP/1.1\r\n\r\n"),
        _sent("H4 empty lines before a request, 50 MiB", 431, "bounds.headers", b"\r\n" * (25 * MEGABYTE)),
        _sent("H4 a chunk extension of 50 MiB", 431, "bounds.headers", endless + b"5;", b"x" * (50 * MEGABYTE)),
        _sent("H4 a trailer of 50 MiB", 431, "bounds.headers", endless + b"0\r\nx: ", b"x" * (50 * MEGABYTE)),
        _sent("H4 50 MiB of short trailers", 431, "bounds.header", endless + b"0\r\n", b"a: b\r\n" * (8 * MEGABYTE)),
        Attack(name="H4 100,000 requests at once on one connection", play=_pipelined, statuses=(0, 200)),
        Attack(
            name="H4 300 requests whose headers never end",
            play=_half_heads,
            statuses=(408,),
            says="bounds.head_seconds",
        ),
        Attack(name="H4 1,200 connections that say nothing", play=_silent, statuses=(0, 408)),
    ]


def _sent(name: str, status: int | tuple[int, ...], says: str, *pieces: bytes) -> Attack:
    async def play(server: Server) -> Answer:
        return await server.send(*pieces)

    return Attack(name=name, play=play, statuses=status if isinstance(status, tuple) else (status,), says=says)


async def _pipelined(server: Server) -> Answer:
    return await server.send((GET + b"\r\n") * 100_000, seconds=20)


async def _half_heads(server: Server) -> Answer:
    return await _many(server, 300, GET + b"x: ")


async def _silent(server: Server) -> Answer:
    return await _many(server, 1_200, b"")


async def _many(server: Server, count: int, sent: bytes, *, at_once: int = 100) -> Answer:
    """Opens `count` connections that send the same bytes and then nothing. Returns the answer with the highest status, or one
    that says that nothing happened."""
    gate = asyncio.Semaphore(at_once)

    async def one() -> Answer:
        async with gate:
            reader, writer = await asyncio.open_connection(server.host, server.port)
        try:
            writer.write(sent)
            async with asyncio.timeout(30):
                return await read_answer(reader)
        except (TimeoutError, ConnectionError) as error:
            return Answer(status=-1, text=f"nothing happened: {error}")
        finally:
            writer.transport.abort()

    answers = await asyncio.gather(*(one() for _ in range(count)))
    unfinished = [answer for answer in answers if answer.status == -1]
    return unfinished[0] if unfinished else max(answers, key=lambda answer: answer.status)


def _of_bodies(quick: bool) -> list[Attack]:
    beginning = b'{"model": "practice", "messages": [{"role": "user", "content": "'
    text = beginning + b"a" * (59 * MEGABYTE - len(beginning))

    async def declared(server: Server) -> Answer:
        return await _unfinished(server, 20, chat_head(60 * MEGABYTE), text)

    async def chunked(server: Server) -> Answer:
        piece = b"10000\r\n" + b"a" * 65_536 + b"\r\n"
        return await _unfinished(server, 20, chat_head(None), piece * (59 * 16))

    async def within(server: Server) -> Answer:
        return await _unfinished(server, 20, chat_head(16 * MEGABYTE), text[: 16 * MEGABYTE - 100])

    async def slow(server: Server) -> Answer:
        return await _many(server, 200 if quick else 1_000, chat_head(1_000) + b"{")

    async def bytewise(server: Server) -> Answer:
        return await server.send(chat_head(None), b"1\r\na\r\n" * (8 * MEGABYTE))

    return [
        Attack(name="H8 20 unfinished bodies of 59 MiB", play=declared, statuses=(413,), says="bounds.body"),
        Attack(name="H8 the same, of a length that is not told", play=chunked, statuses=(413, 503), says="bounds.bod"),
        Attack(name="H8 20 unfinished bodies of 16 MiB", play=within, statuses=(408, 503), says="bounds.bod"),
        Attack(name="H8 requests whose bodies never end", play=slow, statuses=(408, 503), says="bounds."),
        Attack(name="H8 a body of chunks of one byte, 48 MiB", play=bytewise, statuses=(400,), says="bounds.chunks"),
    ]


async def _unfinished(server: Server, count: int, *pieces: bytes) -> Answer:
    """Sends the same unfinished request on `count` connections at once. Returns the answer with the highest status."""

    async def one() -> Answer:
        async with server.connection() as (reader, writer):
            return await exchange(reader, writer, pieces, 30)

    return max(await asyncio.gather(*(one() for _ in range(count))), key=lambda answer: answer.status)


def _of_chats() -> list[Attack]:
    one = '{"role":"user","content":"hello, how are you"}'
    a_call = '{"id":"call_%d","type":"function","function":{"name":"find_member","arguments":"{}"}}'
    calling = '"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[%s]}]'
    tool = '{"type":"function","function":{"name":"tool_%d","description":"does one thing"}}'
    message = {"role": "user", "content": "hello"}
    part = {"type": "text", "text": "a"}
    large = 15 * MEGABYTE
    return [
        _asked("H9 200,000 messages", "bounds.", lambda: raw('"messages":[' + ",".join([one] * 200_000) + "]")),
        _asked("H9 60,000 messages", "bounds.", lambda: raw('"messages":[' + ",".join([one] * 60_000) + "]")),
        _asked("H9 a million fields", "bounds.", lambda: raw(",".join(f'"k{n}":1' for n in range(1_000_000)))),
        _asked("H9 201 fields", "bounds.keys", lambda: raw(",".join(f'"k{n}":1' for n in range(201)))),
        _asked("H9 100,000 tool calls", "bounds.", lambda: raw(calling % ",".join(a_call % n for n in range(100_000)))),
        _asked("H9 150,000 parts", "bounds.", lambda: body(messages=[{"role": "user", "content": [part] * 150_000}])),
        _asked(
            "H9 90,000 parts", "bounds.parts", lambda: body(messages=[{"role": "user", "content": [part] * 90_000}])
        ),
        _asked(
            "H9 a tool whose name has 10 million characters",
            "bounds.name",
            lambda: body(messages=[message], tools=[_tool("n" * 10_000_000)]),
        ),
        _asked(
            "H9 a tool described in 10 million characters",
            "bounds.description",
            lambda: body(messages=[message], tools=[_tool("n", "d" * 10_000_000)]),
        ),
        _asked(
            "H9 100,000 tools",
            "bounds.",
            lambda: raw('"messages":[' + one + '],"tools":[' + ",".join(tool % n for n in range(100_000)) + "]"),
        ),
        _asked("H9 15 MiB of brackets within brackets", "bounds.", lambda: raw('"x":' + "[" * large)),
        _asked("H9 15 MiB of empty lists", "bounds.values", lambda: raw('"x":[' + "[]," * (large // 3) + "[]]")),
        _asked("H9 15 MiB of quotes", "bounds.", lambda: raw('"x":[' + '"",' * (large // 3) + '""]')),
        _asked("H9 15 MiB of backslashes, no JSON", "JSON", lambda: b'{"x":"' + b"\\" * large),
        _asked("H9 200,000 brackets, few enough to be read at once", "", lambda: raw('"x":' + "[" * 200_000)),
    ]


def _allowed() -> list[Attack]:
    """Returns requests as large as the bounds permit: they must be answered, and must not delay others."""
    message = {"role": "user", "content": "freeze the membership of John"}
    long = {"role": "user", "content": "a word and another, " * (700 * 1024)}
    tools = [_tool(f"tool_{n}", f"Does thing {n} for customer {n % 17}.") for n in range(10_000)]
    others = [_tool(f"x{n}") for n in range(2_000)]
    return [
        _asked("allowed: 10,000 tools nobody has seen before", "", lambda: body(messages=[message], tools=tools), 200),
        _asked("allowed: 2,000 other tools", "", lambda: body(messages=[message], tools=others), 200),
        _asked("allowed: 4,801 messages, 1,600 calls", "", lambda: body(messages=[*_turns(1_600), message]), 200),
        _asked("allowed: a message of 14 MiB", "", lambda: body(messages=[long]), 200),
    ]


def _turns(count: int) -> list[Any]:
    turns: list[Any] = []
    for number in range(count):
        name = {"name": "find_member", "arguments": "{}"}
        a_call = {"id": f"call_with_a_long_id_{number}", "type": "function", "function": name}
        result = {"role": "tool", "tool_call_id": a_call["id"], "content": f"member {number}"}
        turns += [{"role": "user", "content": "who?"}, {"role": "assistant", "tool_calls": [a_call]}, result]
    return turns


def _tool(name: str, description: str = "does one thing") -> dict[str, Any]:
    text = {"type": "string", "description": "What."}
    schema = {"type": "object", "properties": {"a": text, "b": {"type": "integer"}}}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "practice", **fields}).encode()


def raw(fields: str) -> bytes:
    return b'{"model":"practice",' + fields.encode() + b"}"


def _asked(name: str, says: str, made: Callable[[], bytes], status: int = 400) -> Attack:
    sent: list[bytes] = []

    async def play(server: Server) -> Answer:
        return await server.post(sent[0])

    def prepare() -> None:
        sent[:] = [made()]

    return Attack(name=name, play=play, statuses=(status,), says=says, prepare=prepare)


# ---------------------------------------------------------------- hostile upstreams and models


TOOLS = r"""
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.core.tool import Tool, ToolResult

PASSWORD = r"(?=.*[A-Z])(?=.*\d)[A-Za-z\d]{8,}$"
REPEATED = r"(?=a)(a+)+$"


def _object(**properties):
    return {"type": "object", "properties": properties}


class Source:
    name = "hostile"
    revision = 1

    def tools(self):
        return [
            Tool(name="set_password", source="hostile", input_schema=_object(password={"type": "string", "pattern": PASSWORD})),
            Tool(name="repeat", source="hostile", input_schema=_object(text={"type": "string", "pattern": REPEATED})),
            Tool(name="repeat_many", source="hostile", input_schema=_object(
                texts={"type": "array", "items": {"type": "string", "pattern": r"(?=a)(a|aa)+$|(b)\2"}})),
            Tool(name="named", source="hostile", input_schema={
                "type": "object", "patternProperties": {r"(?=a)(a|aa)+$|(b)\2": {"type": "integer"}}}),
            Tool(name="plain", source="hostile", input_schema=_object(
                items={"type": "array", "items": {"type": "object", "required": ["a"]}})),
        ]

    def categories(self):
        return ()

    async def call_tool(self, tool, arguments, context):
        return ToolResult(content="done")

    async def close(self):
        pass


source = Source()
"""


@contextlib.asynccontextmanager
async def of_upstreams(*, quick: bool) -> AsyncIterator[tuple[Server, Sequence[Attack]]]:
    """Starts a server behind a scripted upstream, and yields it with the attacks by that upstream: hostile answers, and hostile
    arguments in the model's calls."""
    made: dict[str, Any] = {}

    def answer(asked: Any) -> Any:
        last = asked["messages"][-1]
        return say(last["content"][:4_000]) if last["role"] == "tool" else made[last["content"]]

    with ScriptedUpstream(answer) as upstream:
        words = ("--upstream", upstream.base_url, "--catalog", "python:hostile_tools", "--model", "m")
        environ = {"OPENAI_API_KEY": "test-key"}
        async with serving(*words, quiet=("/healthz", "/readyz"), tools=TOOLS, environ=environ) as server:
            yield server, [*_of_answers(made), *_of_patterns(made)]


_ANSWERS: dict[str, Callable[[], Any]] = {
    "calls": lambda: _completion(_calls(100_000)),
    "some calls": lambda: _completion(_calls(1_000)),
    "name": lambda: _completion('[{"id":"c","type":"function","function":{"name":"%s"}}]' % ("n" * 10_000_000)),
    "large": lambda: garbage(b" " * (60 * MEGABYTE)),
    "values": lambda: _completion("null", '"x":[' + "[]," * (4 * MEGABYTE) + "[]],"),
    "deep": lambda: call("plain", '{"items":' + "[" * 400_000 + "]" * 400_000 + "}"),
    "long": lambda: call("plain", {"items": [{"b": number} for number in range(60_000)]}),
    "over": lambda: call("plain", {"items": ["a" * 1_100_000]}),
    "password": lambda: call("set_password", {"password": "a" * 200_000}),
    "repeat": lambda: call("repeat", {"text": "a" * 199_999 + "b"}),
    "repeat many": lambda: call("repeat_many", {"texts": ["a" * 999 + "b"] * 900}),
    "named": lambda: call("named", {"a" * 900 + f"b{number}": number for number in range(900)}),
}


def _calls(count: int) -> str:
    one = '{"id":"call_%d","type":"function","function":{"name":"plain","arguments":"{}"}}'
    return "[" + ",".join(one % number for number in range(count)) + "]"


def _completion(calls: str, more: str = "") -> Any:
    message = f'{{"role":"assistant","content":null,"tool_calls":{calls}}}'
    choice = f'{{"index":0,"message":{message},"finish_reason":"tool_calls"}}'
    return garbage(
        (f'{{"id":"x","object":"chat.completion","created":1,"model":"m",{more}"choices":[{choice}]}}').encode()
    )


def _of_answers(made: dict[str, Any]) -> list[Attack]:
    return [
        _answer_attack(made, "H9 an answer of 100,000 calls", "calls", "bounds.", 502),
        _answer_attack(made, "H9 a call whose name has 10 million characters", "name", "bounds.name", 502),
        _answer_attack(made, "H9 an answer of 60 MiB", "large", "bounds.answer", 502),
        _answer_attack(made, "H9 an answer of four million values", "values", "bounds.values", 502),
        _answer_attack(made, "H9 arguments nested 400,000 deep", "deep", "not JSON", 200),
        _answer_attack(made, "H9 arguments of more than a million characters", "over", "bounds.arguments", 200),
        _answer_attack(made, "allowed: an answer of 1,000 calls", "some calls", "", 422),
        _answer_attack(made, "H9 60,000 wrong items in arguments", "long", "wrong", 200),
    ]


def _of_patterns(made: dict[str, Any]) -> list[Attack]:
    return [
        _answer_attack(made, "H5 a password of 200,000 characters", "password", "bounds.pattern_text", 200),
        _answer_attack(made, "H5 (?=a)(a+)+$ over 200,000 characters", "repeat", "bounds.pattern_text", 200),
        _answer_attack(made, "H5 900 texts that make a pattern go back", "repeat many", "does not match", 200),
        _answer_attack(made, "H5 900 names that make a pattern go back", "named", "bounds.pattern_seconds", 200),
    ]


def _answer_attack(made: dict[str, Any], name: str, message: str, says: str, status: int) -> Attack:
    sent = json.dumps({"model": "m", "messages": [{"role": "user", "content": message}]}).encode()

    async def play(server: Server) -> Answer:
        return await server.post(sent)

    def prepare() -> None:
        made[message] = _ANSWERS[message]()

    return Attack(name=name, play=play, statuses=(status,), says=says, prepare=prepare)
