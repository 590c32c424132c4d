"""A model's server for tests, on a real socket: it refuses what the real provider refuses, and fails where a test wants that.

No answer waits for a clock. A paced answer waits for a semaphore of the test; an endless one ends when the client disconnects.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Protocol

import msgspec
from aiohttp import web

from toolcaddie.testing.chat import CHAT
from toolcaddie.testing.script import Reply, Script, ScriptError
from toolcaddie.testing.wire import Wire
from toolcaddie.wires.bodies import ENCODER

_MAX_BODY = 64 * 1024 * 1024
"""Size in bytes above which a request is refused."""


@dataclass(slots=True, kw_only=True)
class RecordedRequest:
    """One request as the server received it, and the way in which the exchange ended."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    raw: bytes
    body: Any
    """The decoded JSON; None if the body is empty or not JSON."""
    peer: tuple[str, int] | None = None
    """Address and port of the client: equal for requests that came through the same connection."""
    outcome: Literal["open", "answered", "cut", "client left"] = "open"
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when `outcome` is final. Await it only if the server runs in the same event loop."""


class ScriptedUpstream:
    """A model's server on a port of 127.0.0.1 that answers from a script, by default an OpenAI-compatible one.

    async with ScriptedUpstream([call("freeze", {"id": 7}), say("Done.")]) as upstream:
        ... a client of upstream.base_url with the key "test-key" ...
    upstream.bodies     # the decoded requests, in order

    A script is a list of steps, one for each request. A step is a reply, a fault (`refuse`, `garbage`, `cut`, `paced`, `endless`,
    `empty_choices`, and those of `testing.faults`), or a function of the decoded body, sync or async, that returns a reply or a
    fault. Instead of the list, the script may be one such function. A request that the provider would refuse is refused here in
    the provider's words, and uses no step. `with` instead of `async with` runs the server in a thread, for tests that are not
    async. `api_key=None` accepts any key. `wire` is the API that the server speaks. `models` are the names in its list of models.
    """

    def __init__(
        self,
        script: Sequence[Any] | Callable[[Any], Any] = (),
        *,
        api_key: str | None = "test-key",
        models: Sequence[str] = ("gpt-test",),
        wire: Wire = CHAT,
    ) -> None:
        self.wire = wire
        self.requests: list[RecordedRequest] = []
        self.refusals: list[dict[str, Any]] = []
        """Error bodies of the refused requests."""
        self.api_key = api_key
        self._models = models
        self._script: Script[Any, Reply | Step] = Script(script)
        self._runner: web.AppRunner | None = None
        self._port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def base_url(self) -> str:
        """Returns the address in the form that a provider for this API expects: with `/v1` for chat completions."""
        return f"http://127.0.0.1:{self._port}{self.wire.root}"

    @property
    def bodies(self) -> list[Any]:
        """Returns the bodies of the requests to the model, refused ones included."""
        return [request.body for request in self.requests if self.wire.asks(request.path)]

    async def __aenter__(self) -> ScriptedUpstream:
        app = web.Application(client_max_size=_MAX_BODY)
        app.router.add_get(f"{self.wire.root}/models", self._list_models)
        app.router.add_post("/{path:.*}", self._respond)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.01, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def __enter__(self) -> ScriptedUpstream:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scripted-upstream", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.__aenter__(), self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self.__aexit__(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _list_models(self, request: web.Request) -> web.StreamResponse:
        recorded = await self._record(request)
        exchange = Exchange(request, recorded, wire=self.wire, model="")
        if not self._accepts(recorded):
            return await exchange.send_json(401, self._wrong_key(recorded))
        return await exchange.send_json(200, self.wire.models(self._models))

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        recorded = await self._record(request)
        if not self.wire.asks(recorded.path):
            raise web.HTTPNotFound
        model = self.wire.model_of(recorded.path, recorded.body) if isinstance(recorded.body, dict) else ""
        answer_id = str(len(self.requests))
        exchange = Exchange(request, recorded, wire=self.wire, model=model, answer_id=answer_id)
        try:
            return await self._answer(exchange)
        except (asyncio.CancelledError, ConnectionError):
            recorded.outcome = "client left"
            raise
        finally:
            recorded.over.set()

    async def _answer(self, exchange: Exchange) -> web.StreamResponse:
        recorded = exchange.recorded
        if not self._accepts(recorded):
            return await exchange.send_json(401, self._wrong_key(recorded))
        refused = self.wire.refusal_of(recorded.path, recorded.body)
        if refused is not None:
            self.refusals.append(refused)
            return await exchange.send_json(400, refused)
        try:
            step = await self._script.next(recorded.body)
        except ScriptError as error:
            return await exchange.send_json(500, self.wire.error(500, str(error)))
        return await (_Plays(reply=step) if isinstance(step, Reply) else step).play(exchange)

    async def _record(self, request: web.Request) -> RecordedRequest:
        raw = await request.read()
        try:
            body = msgspec.json.decode(raw) if raw else None
        except msgspec.DecodeError:
            body = None
        headers = {name.lower(): value for name, value in request.headers.items()}
        recorded = RecordedRequest(
            method=request.method,
            path=request.path,
            headers=headers,
            raw=raw,
            body=body,
            peer=request.transport.get_extra_info("peername") if request.transport else None,
        )
        self.requests.append(recorded)
        return recorded

    def _accepts(self, recorded: RecordedRequest) -> bool:
        return self.api_key is None or self.wire.key_of(recorded.headers) == self.api_key

    def _wrong_key(self, recorded: RecordedRequest) -> dict[str, Any]:
        has_key = self.wire.key_of(recorded.headers) is not None
        message = "Incorrect API key provided." if has_key else "You didn't provide an API key."
        return self.wire.error(401, message, code="invalid_api_key")


class Exchange:
    """One request, and the methods with which a step of the script answers it."""

    def __init__(
        self, request: web.Request, recorded: RecordedRequest, *, wire: Wire, model: str, answer_id: str = ""
    ) -> None:
        self.request = request
        self.recorded = recorded
        self.wire = wire
        self.model = model
        self.id = answer_id
        self._response: web.StreamResponse | None = None

    @property
    def streams(self) -> bool:
        return self.wire.streams(self.recorded.path, self.recorded.body)

    async def send_json(
        self, status: int, body: Any, *, headers: Mapping[str, str] | None = None
    ) -> web.StreamResponse:
        return await self.send_body(status, ENCODER.encode(body), "application/json", headers=headers)

    async def send_body(
        self, status: int, body: bytes, content_type: str, *, headers: Mapping[str, str] | None = None
    ) -> web.StreamResponse:
        response = web.Response(status=status, body=body, headers={"content-type": content_type, **(headers or {})})
        await response.prepare(self.request)
        await response.write_eof()
        self.recorded.outcome = "answered"
        return response

    def whole(self, reply: Reply) -> dict[str, Any]:
        """Returns the body of a plain reply."""
        return self.wire.whole(reply, answer_id=self.id, model=self.model)

    def events(self, reply: Reply) -> list[bytes]:
        """Returns the data of each event of a streamed reply, including the event that ends the stream."""
        return self.wire.events(reply, answer_id=self.id, model=self.model, body=self.recorded.body)

    async def send_event(self, data: bytes) -> None:
        """Sends one server-sent event. The first one also sends the status and the headers."""
        await self.send_bytes(self.wire.block(data))

    async def send_bytes(self, data: bytes, *, content_type: str = "text/event-stream; charset=utf-8") -> None:
        """Sends bytes unchanged, as part of a body whose length is not announced."""
        if self._response is None:
            self._response = web.StreamResponse(headers={"content-type": content_type})
            await self._response.prepare(self.request)
        await self._response.write(data)

    async def end(self) -> web.StreamResponse:
        if self._response is None:
            self._response = web.StreamResponse()
            await self._response.prepare(self.request)
        await self._response.write_eof()
        self.recorded.outcome = "answered"
        return self._response

    async def hang_up(self) -> web.StreamResponse:
        """Closes the connection in the middle of the answer. Bytes that were written before are still sent."""
        response = self._response or web.StreamResponse()
        if self.request.transport is not None:
            self.request.transport.close()
        self.recorded.outcome = "cut"
        return response


class Step(Protocol):
    """One step of a script: answers one request. Write a class with this method if none of the functions below fits."""

    async def play(self, exchange: Exchange) -> web.StreamResponse: ...


def refuse(
    status: int,
    message: str = "the test says no",
    *,
    code: str | None = None,
    kind: str = "",
    headers: Mapping[str, str] | None = None,
) -> Step:
    """Returns a step that answers with an error in the provider's format. `headers` may contain `retry-after`."""
    return _Refusal(status=status, message=message, code=code, kind=kind, headers=headers)


def garbage(
    body: bytes = b"<html>Bad gateway</html>", *, content_type: str = "application/json", status: int = 200
) -> Step:
    """Returns a step that answers with these bytes, whatever the request is."""
    return _Answer(status=status, body=body, content_type=content_type)


def cut(reply: Reply, *, after: int, clean: bool = False) -> Step:
    """Returns a step that stops a streamed reply after this number of events, and an answer without streaming in the middle.

    `clean`: the body ends properly, only too early. Otherwise the connection is closed.
    """
    return _Cut(reply=reply, after=after, clean=clean)


def paced(reply: Reply, gate: asyncio.Semaphore) -> Step:
    """Returns a step that waits for `gate` before each event of the reply; without streaming, once before the whole answer.

    The test releases `gate` once for each event that it wants to be sent.
    """
    return _Paced(reply=reply, gate=gate)


def endless(text: str = "and on ") -> Step:
    """Returns a step that streams this text again and again until the client disconnects."""
    return _Endless(text=text)


def empty_choices() -> Step:
    """Returns a step that sends an answer without any place for content, such as chat completions without `choices`."""
    return _EmptyChoices()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plays:
    """Sends the reply as a stream if the request asks for that, else as one body."""

    reply: Reply

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        if not exchange.streams:
            return await exchange.send_json(200, exchange.whole(self.reply))
        for event in exchange.events(self.reply):
            await exchange.send_event(event)
        return await exchange.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    status: int
    message: str
    code: str | None
    kind: str
    headers: Mapping[str, str] | None

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        body = exchange.wire.error(self.status, self.message, kind=self.kind, code=self.code)
        return await exchange.send_json(self.status, body, headers=self.headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] | None = None

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        return await exchange.send_body(self.status, self.body, self.content_type, headers=self.headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    reply: Reply
    after: int
    clean: bool

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        if exchange.streams:
            for event in exchange.events(self.reply)[: self.after]:
                await exchange.send_event(event)
        else:
            whole = ENCODER.encode(exchange.whole(self.reply))
            await exchange.send_bytes(whole[: len(whole) // 2], content_type="application/json")
        return await (exchange.end() if self.clean else exchange.hang_up())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Paced:
    reply: Reply
    gate: asyncio.Semaphore

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        if not exchange.streams:
            await self.gate.acquire()
            return await _Plays(reply=self.reply).play(exchange)
        for event in exchange.events(self.reply):
            await self.gate.acquire()
            await exchange.send_event(event)
        return await exchange.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Endless:
    text: str

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        begun = b'"' + self.text[:2].encode()
        events = exchange.events(Reply(text=self.text))
        first = next(place for place, event in enumerate(events) if begun in event)
        for event in events[:first]:  # some APIs send events that open a text before its first words
            await exchange.send_event(event)
        while True:
            await exchange.send_event(events[first])
            await asyncio.sleep(0)  # a write into the buffer does not yield, and the client's task must run too


@dataclass(frozen=True, slots=True, kw_only=True)
class _EmptyChoices:
    async def play(self, exchange: Exchange) -> web.StreamResponse:
        if not exchange.streams:
            return await exchange.send_json(200, exchange.wire.empty(answer_id=exchange.id, model=exchange.model))
        for event in exchange.wire.empty_events(answer_id=exchange.id, model=exchange.model):
            await exchange.send_event(event)
        return await exchange.end()
