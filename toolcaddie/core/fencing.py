"""A last check, right before a call acts, that this process may still act for the run.

A process can be stopped at any moment, also between the record of a call's intent and the call itself. Meanwhile another process
may have counted it as dead. So whoever starts the call in a thread checks once more in that thread, where nothing lies between
the check and the call.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

Fence = Callable[[], None]
"""Raises `RunTakenError` if this process may not act any more."""

_fence: ContextVar[Fence | None] = ContextVar("toolcaddie_fence", default=None)


def set_fence(fence: Fence) -> None:
    """Sets the fence of the next call that the present task makes."""
    _fence.set(fence)


def take_fence() -> Fence | None:
    """Returns the fence of the call that the present task makes now, and removes it; None: there is none."""
    fence = _fence.get()
    if fence is not None:
        _fence.set(None)
    return fence
