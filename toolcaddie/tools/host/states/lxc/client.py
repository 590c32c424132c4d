"""A client of the REST interface 1.0 of Incus and LXD, over the socket of this machine. It knows no tool and no policy."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from toolcaddie.core.errors import HostError
from toolcaddie.tools.host.words import words

SOCKETS = (
    "/var/lib/incus/unix.socket",
    "/run/incus/unix.socket",
    "/var/lib/lxd/unix.socket",
    "/var/snap/lxd/common/lxd/unix.socket",
)
"""Places of the socket, in the order in which they are tried."""

_LONGEST = 16 * 1024 * 1024
"""The largest number of bytes that is read of an answer: some thousand containers."""
_CANCELLING_SECONDS = 3.0
_MARGIN = 5.0
"""Seconds in which the server answers after it has waited for an operation as long as it was asked to."""
_PAUSE = 0.2
"""Seconds before a server that did not wait is asked again."""
_ID = re.compile(r"[0-9a-fA-F-]{1,64}")
_FAILED, _SUCCESS = 400, 200
"""Codes of the status of an operation; a smaller one than `_SUCCESS` means that it has not ended."""


class LxcRefusedError(HostError):
    """The server answered with an error; `code` is that of HTTP."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of the server to a request."""

    metadata: Any
    etag: str
    operation: str
    """The id of the operation that the request has begun; empty: there is none."""


class LxcClient:
    """Sends requests. The connections belong to the event loop of the first request and are opened again in another one.

    `path`: the socket; empty: the first of `SOCKETS` that is there. `timeout`: seconds for an answer. `operation_timeout`:
    seconds for an operation, such as creating a container.
    """

    def __init__(self, path: str, *, project: str, timeout: float, operation_timeout: float) -> None:
        self._path = path
        self._project = project
        self._timeout = timeout
        self._operation_timeout = operation_timeout
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: aiohttp.ClientSession | None = None
        self._session_path = ""

    async def get(self, path: str, **parameters: str) -> Answer:
        """Returns the answer. Raises `LxcRefusedError` if it is an error, and `HostError` if there is none."""
        return await self._request("GET", path, parameters=parameters)

    async def change(self, method: str, path: str, body: Any = None, *, etag: str = "") -> None:
        """Sends a request that changes something, and waits until the operation that it begins has ended. `etag`: that of the
        state to be changed; empty: any. Raises `HostError` with the server's reason."""
        answer = await self._request(method, path, body=body, etag=etag)
        if answer.operation:
            await self._ended(answer.operation)

    async def close(self) -> None:
        """Closes the connections. A later request opens new ones."""
        session, self._session = self._session, None
        if session is not None and self._loop is asyncio.get_running_loop():
            await session.close()

    # --- operations --------------------------------------------------------------------------------------------------------

    async def _ended(self, operation: str) -> None:
        """Waits for an operation. One that takes too long, or for which nobody waits any longer, is cancelled."""
        try:
            done = await self._waited(operation)
        except BaseException:
            await self._cancelled(operation)
            raise
        if done.get("status_code") != _SUCCESS:
            reason = words(done.get("err") or done.get("status") or "it ended without a reason")
            raise HostError(f"the container server could not do it: {reason}")

    async def _waited(self, operation: str) -> Mapping[str, Any]:
        """Returns an operation that has ended."""
        seconds = self._operation_timeout
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    parameters = {"timeout": str(max(1, int(seconds)))}
                    answer = await self._request(
                        "GET", f"/1.0/operations/{operation}/wait", parameters=parameters, seconds=seconds + _MARGIN
                    )
                    if not isinstance(answer.metadata, dict):
                        raise HostError("the container server did not say how its operation ended")
                    if _code(answer.metadata) >= _SUCCESS:
                        return answer.metadata
                    await asyncio.sleep(_PAUSE)
        raise HostError(f"the container server did not finish within {seconds:g} s; it was asked to stop trying")

    async def _cancelled(self, operation: str) -> None:
        """Asks the server to give an operation up. It may be one that cannot be cancelled, or has ended."""
        with suppress(HostError, TimeoutError):
            async with asyncio.timeout(_CANCELLING_SECONDS):
                await self._request("DELETE", f"/1.0/operations/{operation}")

    # --- requests ----------------------------------------------------------------------------------------------------------

    async def _request(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        body: Any = None,
        etag: str = "",
        seconds: float | None = None,
    ) -> Answer:
        seconds = self._timeout if seconds is None else seconds
        headers = {"If-Match": etag} if etag else {}
        content = None if body is None else msgspec.json.encode(body)
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            async with asyncio.timeout(seconds):
                session = await self._opened()
                async with session.request(
                    method,
                    f"http://lxc{path}",
                    params={"project": self._project, **(parameters or {})},
                    data=content,
                    headers=headers,
                    allow_redirects=False,
                ) as response:
                    return _answer(response, await _read(response))
        except TimeoutError as error:
            raise HostError(f"the container server did not answer within {seconds:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM):
                raise HostError(f"the socket {self.socket()} may not be opened; {_GROUP}") from error
            raise HostError(f"the container server cannot be reached: {words(error)}; is it running?") from error

    async def _opened(self) -> aiohttp.ClientSession:
        """Returns the session of the running event loop and of the socket that is there now."""
        loop, path = asyncio.get_running_loop(), self.socket()
        if self._session is not None and self._loop is loop and self._session_path == path:
            return self._session
        old = self._session if self._loop is loop else None
        session = self._session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(path),
            timeout=aiohttp.ClientTimeout(total=None),  # each request has a deadline of its own
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        self._loop, self._session_path = loop, path
        if old is not None:
            await old.close()
        return session

    def socket(self) -> str:
        """Returns the path of the socket. Raises `HostError` if there is none."""
        for path in (self._path,) if self._path else SOCKETS:
            with suppress(OSError):
                if stat.S_ISSOCK(os.stat(path).st_mode):
                    return path
        place = self._path or " or ".join(SOCKETS[::2])
        raise HostError(f"there is no container server on this machine: no socket {place}; {INSTALL}")


INSTALL = "install incus or lxd, or name its socket in the settings of the plugin lxc"
_GROUP = "run as a member of the group incus-admin or lxd"


async def _read(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > _LONGEST:
            raise HostError(f"the container server answered with more than {_LONGEST // 1024 // 1024} MB")
    return bytes(content)


def _answer(response: aiohttp.ClientResponse, content: bytes) -> Answer:
    try:
        body = msgspec.json.decode(content)
    except (ValueError, RecursionError) as error:  # ValueError: also text that is not UTF-8
        raise HostError(f"the container server answered {response.status} with something that is no JSON") from error
    if not isinstance(body, dict):
        raise HostError(f"the container server answered {response.status} with something that is no answer of its API")
    if body.get("type") == "error" or response.status >= _FAILED:
        raise LxcRefusedError(f"the container server refused: {words(body.get('error'))}", code=response.status)
    if body.get("type") not in ("sync", "async"):
        raise HostError(f"the container server answered {response.status} with something that is no answer of its API")
    return Answer(
        metadata=body.get("metadata"),
        etag=response.headers.get("ETag", ""),
        operation=_operation(body) if body["type"] == "async" else "",
    )


def _operation(body: Mapping[str, Any]) -> str:
    """Returns the id of the operation in an answer; the project may be part of its address."""
    address = body.get("operation")
    name = address.partition("?")[0].rpartition("/")[2] if isinstance(address, str) else ""
    if not _ID.fullmatch(name):
        raise HostError("the container server began an operation without naming it")
    return name


def _code(operation: Mapping[str, Any]) -> int:
    code = operation.get("status_code")
    return code if isinstance(code, int) else _FAILED
