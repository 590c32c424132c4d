"""The kinds of requests whose costs are measured, and how the costs of a capacity plan's components follow from them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, fields

import aiohttp

from benchmarks.replicas.model import request_text
from toolcaddie.evaluation.capacity.constants import Component, Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of request. `script`: what the scripted model does."""

    script: str
    is_passed: bool = False
    is_streamed: bool = False
    has_key: bool = False


KINDS: Mapping[str, Kind] = {
    "passed": Kind(script="chat", is_passed=True),
    "run": Kind(script="chat"),
    "stream": Kind(script="chat", is_streamed=True),
    "key": Kind(script="chat", has_key=True),
    "read": Kind(script="read"),
    "twice": Kind(script="twice"),
    "write": Kind(script="write"),
}


async def send(session: aiohttp.ClientSession, address: str, kind: Kind) -> None:
    """Sends one request and reads its answer. Raises `RuntimeError` if it was not answered."""
    request = uuid.uuid4().hex
    headers = {"x-toolcaddie-catalog": "none"} if kind.is_passed else {}
    if kind.has_key:
        headers["idempotency-key"] = request
    message = {"role": "user", "content": request_text(request, kind.script)}
    body = {"model": "gpt-test", "messages": [message], "stream": kind.is_streamed}
    async with session.post(f"{address}/v1/chat/completions", json=body, headers=headers) as response:
        answer = await response.read()
    end = b"data: [DONE]" if kind.is_streamed else f"done {request}".encode()
    if response.status != 200 or end not in answer:
        raise RuntimeError(f"{kind.script}: {response.status}: {answer[:500]!r}")


def components(costs: Mapping[str, Cost]) -> Mapping[Component, Cost]:
    """Returns the costs of the components, from those of whole requests. `read` and `write` are runs of two rounds with one call,
    and `twice` has a second call in the same round."""
    run, reading_call = costs["run"], _less(costs["twice"], costs["read"])
    a_round = _less(_less(costs["read"], run), reading_call)
    return {
        "passed": costs["passed"],
        "run": run,
        "round": a_round,
        "reading_call": reading_call,
        "writing_call": _less(_less(costs["write"], run), a_round).plus(Cost(flushes=1)),
        "stream": _less(costs["stream"], run),
        "key": _less(costs["key"], run).plus(Cost(flushes=2)),  # the claim of the key, and the answer
    }


def _less(cost: Cost, other: Cost) -> Cost:
    """Returns the difference. A difference below zero is an error of measurement."""
    names = [field.name for field in fields(Cost)]
    return Cost(**{name: max(0.0, getattr(cost, name) - getattr(other, name)) for name in names})
