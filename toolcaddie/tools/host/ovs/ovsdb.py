"""A client of ovsdb-server: JSON-RPC of RFC 7047 over one connection, which all requests of an event loop share."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from toolcaddie.core.errors import HostError
from toolcaddie.tools.host.ovs.framing import Frames
from toolcaddie.tools.host.ovs.settings import Address

MOST_BYTES = 4 * 1024 * 1024
"""The largest answer."""
_CHUNK = 64 * 1024
_DATABASE = "Open_vSwitch"
_VSWITCHD = "ovs_vswitchd"
"""The lock of the database that ovs-vswitchd holds as long as it runs."""

Operation = dict[str, Any]
"""One operation of a transaction."""
Request = tuple[str, Sequence[Any]]
"""A method and its parameters."""


class ConflictError(HostError):
    """A transaction was not made, because what it assumes is no longer so."""


class LossError(HostError):
    """The connection was lost before the answer had come."""


class Ovsdb:
    """Sends requests. A connection is made by the first request, and by the next one after it was lost."""

    def __init__(self, address: Address, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._opening: asyncio.Task[_Connection] | None = None

    async def read(self, operations: Sequence[Operation]) -> list[dict[str, Any]]:
        """Returns the results of operations that change nothing, and so are made again if the connection was lost meanwhile.
        Raises `HostError`."""
        try:
            return await self.transact(operations)
        except LossError:
            return await self.transact(operations)

    async def transact(self, operations: Sequence[Operation], *, timeout: float | None = None) -> list[dict[str, Any]]:
        """Makes all operations or none, and returns a result for each. Raises `ConflictError` if a `wait` did not hold or a
        name is taken, and `HostError` for all else. `timeout`: seconds, if they are not those of the settings."""
        (results,) = await self._request(("transact", [_DATABASE, *operations]), timeout=timeout)
        if not isinstance(results, list) or not all(isinstance(result, dict) or result is None for result in results):
            raise HostError(f"{self._name}: the answer cannot be read")
        for result in results:
            if result is not None and "error" in result:
                raise _refusal(result)
        return results

    async def is_served(self) -> bool:
        """Returns whether ovs-vswitchd is running: whether it holds its lock. The lock is given back at once if it was free."""
        # Both requests are sent at once, so that the lock is given back even if this call is cancelled while it waits.
        requests = (("lock", [_VSWITCHD]), ("unlock", [_VSWITCHD]))
        try:
            answer, _ = await self._request(*requests)
        except LossError:
            answer, _ = await self._request(*requests)
        return not (isinstance(answer, dict) and answer.get("locked"))

    async def close(self) -> None:
        """Closes the connection; requests that wait for an answer fail."""
        opening, self._opening = self._opening, None
        if opening is None or opening.get_loop() is not asyncio.get_running_loop():
            return
        if not opening.done():
            opening.cancel()
        with suppress(HostError, asyncio.CancelledError):
            await (await opening).close()

    async def _request(self, *requests: Request, timeout: float | None = None) -> list[Any]:
        """Sends requests, and returns the result of each. Raises `HostError`."""
        seconds = self._timeout if timeout is None else timeout
        connection: _Connection | None = None
        try:
            async with asyncio.timeout(seconds):
                connection = await self._connection()
                return await connection.request(requests)
        except TimeoutError as error:
            if connection is not None:
                connection.retire()
            raise HostError(f"{self._name} has not answered within {seconds:g} s") from error

    @property
    def _name(self) -> str:
        place = self._address.path or f"{self._address.host}:{self._address.port}"
        return f"ovsdb-server at {place}"

    async def _connection(self) -> _Connection:
        """Returns the connection of this event loop, which is shared."""
        loop = asyncio.get_running_loop()
        if self._opening is None or self._opening.get_loop() is not loop or _is_over(self._opening):
            self._opening = loop.create_task(self._opened())
            self._opening.add_done_callback(_seen)
        return await asyncio.shield(self._opening)

    async def _opened(self) -> _Connection:
        address = self._address
        try:
            async with asyncio.timeout(self._timeout):
                if address.path:
                    return _Connection(self._name, *await asyncio.open_unix_connection(address.path))
                return _Connection(self._name, *await asyncio.open_connection(address.host, address.port))
        except TimeoutError as error:
            raise HostError(f"{self._name}: no connection within {self._timeout:g} s") from error
        except OSError as error:
            raise HostError(
                f"{self._name} cannot be reached: {error.strerror or error}; "
                "start Open vSwitch, or set ovs.database to its address"
            ) from error


class _Connection:
    """One connection. Answers come in any order; each has the number of its request."""

    def __init__(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._name = name
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._task = asyncio.get_running_loop().create_task(self._receive())
        self._is_retired = False

    @property
    def is_over(self) -> bool:
        """True: nothing more can be asked."""
        return self._task.done() or self._is_retired

    def retire(self) -> None:
        """Lets new requests have a new connection, because this one does not answer; closes it when nothing waits for it."""
        self._is_retired = True
        if not self._waiting:
            self._task.cancel()

    async def request(self, requests: Sequence[Request]) -> list[Any]:
        """Sends requests, one right after the other, and returns the result of each."""
        if self.is_over:
            raise self._loss()
        numbers = [self._send(method, parameters) for method, parameters in requests]
        try:
            await self._writer.drain()
            return [await self._waiting[number] for number in numbers]
        except OSError as error:
            self._is_retired = True
            raise self._loss() from error
        finally:
            for number in numbers:
                self._waiting.pop(number).cancel()
            if self._is_retired:
                self.retire()

    def _send(self, method: str, parameters: Sequence[Any]) -> int:
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(msgspec.json.encode({"method": method, "params": parameters, "id": number}))
        return number

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _receive(self) -> None:
        """Hands out the answers until the connection is lost or closed."""
        frames = Frames(MOST_BYTES)
        problem: HostError | None = None
        try:
            while chunk := await self._reader.read(_CHUNK):
                for frame in frames.feed(chunk):
                    self._take(msgspec.json.decode(frame))
                await self._writer.drain()  # a server that asks on and on and reads no answer fills no memory
        except HostError as error:
            problem = error
        except (ValueError, RecursionError) as error:  # ValueError: also text that is not UTF-8
            problem = HostError(f"{self._name}: an answer is no JSON that can be read: {error}")
        except OSError:
            problem = self._loss()
        finally:
            self._writer.transport.abort()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(problem or self._loss())

    def _take(self, message: Any) -> None:
        match message:
            case {"method": "echo", "params": parameters, "id": number}:
                self._writer.write(msgspec.json.encode({"result": parameters, "error": None, "id": number}))
            case {"id": int(number), "result": result, "error": error}:
                future = self._waiting.get(number)  # None: whoever asked has given up
                if future is None or future.done():
                    return
                if error is None:
                    future.set_result(result)
                else:
                    future.set_exception(_refusal(error if isinstance(error, dict) else {"error": str(error)}))

    def _loss(self) -> LossError:
        return LossError(f"{self._name}: the connection was lost; it is not known whether a change was made")


def _refusal(error: dict[str, Any]) -> HostError:
    kind, details = str(error.get("error", ""))[:200], str(error.get("details", ""))[:500]
    if kind in ("timed out", "constraint violation", "referential integrity violation"):
        return ConflictError(f"the database has refused the change: {kind}{details and ': '}{details}")
    return HostError(f"ovsdb-server has refused the request: {kind}{details and ': '}{details}")


def _is_over(opening: asyncio.Task[_Connection]) -> bool:
    """Returns whether a new connection is needed."""
    return opening.done() and (opening.cancelled() or opening.exception() is not None or opening.result().is_over)


def _seen(opening: asyncio.Task[_Connection]) -> None:
    """Reads the exception, if there is one, because all who waited for the connection may have given up."""
    if not opening.cancelled():
        opening.exception()
