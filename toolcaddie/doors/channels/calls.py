"""Calls of the HTTP API of a messaging service: one attempt each, with errors that say whether another one makes sense."""

from __future__ import annotations

from collections.abc import Callable

import aiohttp

from toolcaddie.core.errors import (
    OutboundError,
    ProviderAuthError,
    ProviderError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderUnavailableError,
)
from toolcaddie.guards.net import connection_reason, read_capped

_SECONDS = 20.0
_CONNECT_SECONDS = 10.0
_ANSWER_BYTES = 4 * 1024 * 1024
_LONGEST_REASON = 300


class Calls:
    """Calls a service, whose name is in the errors. `client` makes the session, in the event loop of the first call."""

    def __init__(self, service: str, client: Callable[..., aiohttp.ClientSession]) -> None:
        self._service = service
        self._client = client
        self._session: aiohttp.ClientSession | None = None

    async def call(
        self, method: str, url: str, *, seconds: float = _SECONDS, most: int = _ANSWER_BYTES, **options: object
    ) -> tuple[int, bytes]:
        """Returns status and body of the response. Raises `ProviderUnavailableError` if there is none, and `OutboundError` if it
        is larger than `most` bytes. An error shows at most the host, because the rest of the address may contain a key."""
        if self._session is None:
            self._session = self._client(seconds=None)
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=min(seconds, _CONNECT_SECONDS))
        try:
            async with self._session.request(method, url, timeout=timeout, **options) as response:  # type: ignore[arg-type]
                return response.status, await read_capped(response, most)
        except TimeoutError as error:
            raise ProviderUnavailableError(f"{self._service} did not answer within {seconds:g} s") from error
        except OutboundError:
            raise OutboundError(f"{self._service} sent more than {most:,} bytes, or redirected elsewhere") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = connection_reason(error) or type(error).__name__
            raise ProviderUnavailableError(f"{self._service} cannot be reached: {reason}") from None

    def refusal(self, status: int, reason: str, retry_after: float | None = None) -> ProviderError:
        """Returns the error for a response with this status."""
        text = f"{self._service} answered with status {status}: {reason[:_LONGEST_REASON]}"
        if status == 429:
            return ProviderRateLimitError(text, status=status, retry_after=retry_after)
        if status in (401, 403):
            return ProviderAuthError(text, status=status)
        if status >= 500 or status in (408, 409):
            return ProviderUnavailableError(text, status=status, retry_after=retry_after)
        return ProviderRejectedError(text, status=status)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
