"""Expectations that the contract suites of services share: a service is a part that asks somebody else's server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from toolcaddie.core.errors import OutboundError
from toolcaddie.testing.contract import ContractError, expect

T = TypeVar("T")

SECONDS = 30.0
"""Time that a service is given for an answer."""
NO_SECONDS = 0.001
_SOON = 5.0


class Service(Protocol):
    async def close(self) -> None: ...


def expect_name(name: object) -> None:
    expect(isinstance(name, str) and bool(name), f"the name is {name!r}")


async def answer_of(work: Awaitable[T]) -> T:
    """Returns the answer to a request that was given `SECONDS`."""
    try:
        async with asyncio.timeout(2 * SECONDS):
            return await work
    except TimeoutError as error:
        raise ContractError(f"it did not answer within twice the {SECONDS:g} s that it was given") from error


async def expect_end(work: Awaitable[object]) -> None:
    """Checks that a request ends soon that was given `NO_SECONDS`."""
    try:
        async with asyncio.timeout(_SOON):
            await work
    except OutboundError:
        pass
    except TimeoutError as error:
        raise ContractError(f"a request that was given 1 ms was still running after {_SOON:g} s") from error


async def expect_cancellation(work: Coroutine[Any, Any, object]) -> None:
    """Checks that a request ends when its caller cancels it."""
    task = asyncio.ensure_future(work)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=_SOON)
    is_over = task.done() and (task.cancelled() or task.exception() is None)
    expect(is_over, "it caught the cancellation of its caller and did not raise it again")


async def expect_use_after_close(service: Service, use: Callable[[], Awaitable[object]]) -> None:
    """Checks that a service can be used after it was closed, and closed twice."""
    await service.close()
    await use()
    await service.close()
    await service.close()
