"""Calls of the HTTP APIs of messaging services: one attempt each, with errors that say whether another one makes sense."""

from __future__ import annotations

import aiohttp

from toolcaddie.core.errors import (
    OutboundError,
    ProviderAuthError,
    ProviderError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderUnavailableError,
)
from toolcaddie.guards.net import read_capped

_ANSWER_BYTES = 4 * 1024 * 1024
_LONGEST_REASON = 300


async def called(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    *,
    service: str,
    seconds: float,
    most: int = _ANSWER_BYTES,
    **options: object,
) -> tuple[int, bytes]:
    """Returns status and body of the response. Raises `ProviderUnavailableError` if there is none, and `OutboundError` if it is
    larger than `most` bytes. No error shows the address, which may contain a key."""
    timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=min(seconds, 10.0))
    try:
        async with session.request(method, url, timeout=timeout, **options) as response:  # type: ignore[arg-type]
            return response.status, await read_capped(response, most)
    except TimeoutError as error:
        raise ProviderUnavailableError(f"{service} did not answer within {seconds:g} s") from error
    except OutboundError:
        raise OutboundError(f"{service} sent more than {most:,} bytes, or redirected elsewhere") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ProviderUnavailableError(f"{service} cannot be reached: {type(error).__name__}") from None


def refusal(service: str, status: int, reason: str, retry_after: float | None = None) -> ProviderError:
    """Returns the error for a response with this status."""
    text = f"{service} answered with status {status}: {reason[:_LONGEST_REASON]}"
    if status == 429:
        return ProviderRateLimitError(text, status=status, retry_after=retry_after)
    if status in (401, 403):
        return ProviderAuthError(text, status=status)
    if status >= 500 or status in (408, 409):
        return ProviderUnavailableError(text, status=status, retry_after=retry_after)
    return ProviderRejectedError(text, status=status)
