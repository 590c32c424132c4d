"""Errors as values: what they carry survives the way between processes."""

from __future__ import annotations

import pickle

import pytest

from toolcaddie.core.errors import (
    LimitExceededError,
    ProviderRateLimitError,
    RequestError,
    ToolcaddieError,
    ToolNotCalledError,
)


@pytest.mark.parametrize(
    "error",
    [
        ToolcaddieError("plain"),
        RequestError("field is missing", param="messages", code="missing"),
        LimitExceededError("more than 75 tool calls", limit="calls"),
        ToolNotCalledError("no tool was called", attempts=("first", "second")),
        ProviderRateLimitError("slow down", status=429, retry_after=2.5),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_a_worker_process_arrives_with_all_it_carries(error: ToolcaddieError) -> None:
    error.acted = True
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)
