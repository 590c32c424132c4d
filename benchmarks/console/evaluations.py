"""Puts finished evaluations into the large database of the console, which are made as its page makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from toolcaddie.app.build import Assembled
from toolcaddie.app.evaluations import Evaluations
from toolcaddie.app.measuring import Configuration
from toolcaddie.app.measuring_process import Measurement
from toolcaddie.core.tool import Tool
from toolcaddie.util.replacing import replace

_EVALUATIONS, _REQUESTS = 3, 200


async def evaluate(parts: Assembled, tools: Sequence[Tool]) -> None:
    """Measures two configurations on a list, some times, as the page does."""
    lines = [f'{{"query": "{each.name.replace("_", " ")}", "gold": ["{each.name}"]}}' for each in tools[:_REQUESTS]]
    measurement = Measurement(
        configurations=tuple(
            Configuration(name=name, settings=replace(parts.settings, preset=name)) for name in ("default", "keyword")
        ),
        tools=tuple(tools),
        categories=(),
        requests="\n".join(lines).encode(),
        tenant=None,
        most=_REQUESTS,
        runs=1,
    )
    evaluations = Evaluations(parts.documents)
    for _ in range(_EVALUATIONS):
        evaluation = await evaluations.begin(measurement, by="default/ada", tenant="default")
        while (evaluation := await evaluations.get("default", evaluation.id)).status == "running":  # noqa: ASYNC110  there is no event for it
            await asyncio.sleep(0.2)
        assert evaluation.status == "done", evaluation.error
