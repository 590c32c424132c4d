"""The reviewer of the host: a run of its own model, with file tools for the copy of a bot's files and nothing else.

The run is one of the reviewed bot, so it counts in the bot's budget.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from toolcaddie.control.bots import Bot
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.capabilities import CAPABILITIES, Capabilities
from toolcaddie.core.errors import RunError
from toolcaddie.core.message import Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.presets import preset
from toolcaddie.core.run import RunRequest
from toolcaddie.core.tool import JsonObject, Spent
from toolcaddie.ports import EventSink, KeyMeter, Provider
from toolcaddie.ports.reviewing import Review, Reviewed
from toolcaddie.runtime import Runtime
from toolcaddie.runtime.budgets import NO_BUDGET
from toolcaddie.tools.files import files
from toolcaddie.util.replacing import replace

_ROUNDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReviewer:
    """Implements `ports.Reviewer`. Every call of the review is allowed, because its tools reach only the copy."""

    provider: Provider
    model: str = ""
    bots: Mapping[str, Bot] = field(default_factory=dict)
    """The bots of the settings. One with a model of its own is reviewed by it, the others by `model`."""
    trail: EventSink | None = None
    """Records the reviews as runs."""
    meter: KeyMeter | None = None
    """Counts what reviews use, together with all other runs of the bot; None: no bot has a budget."""
    capabilities: Sequence[Capabilities] = CAPABILITIES
    """The models' prices."""
    name: str = "run"
    contained: bool = True

    async def review(self, review: Review) -> Reviewed:
        source = files(base_path=str(review.folder), untrusted=False)
        kept, bot = preset("multibot"), self.bots.get(review.principal.bot or "")
        runtime = Runtime(
            provider=_Shared(self.provider),
            sources=[source],
            model=self.model,
            policy=AllowAll(),
            preset=replace(kept, limits=replace(kept.limits, rounds=_ROUNDS, seconds=review.seconds)),
            trail=self.trail,
            bots={} if bot is None else {str(review.principal.bot): self._reviewed(bot)},
            meter=self.meter,
            capabilities=self.capabilities,
        )
        request = RunRequest(
            messages=[
                Message(role="system", content=review.instructions),
                Message(role="user", content="Begin the review."),
            ],
            principal=review.principal,
            inherited=replace(review.inherited, tools=tuple(tool.name for tool in source.tools())),
            remember=False,
        )
        async with runtime:
            result = await runtime.run(request)
        if result.status != "completed":
            raise RunError(f"the review ended with status {result.status}")
        spent = Spent(usage=result.usage, calls=result.state.calls, taint=result.state.taint)
        return Reviewed(summary=result.text, spent=spent)

    def _reviewed(self, bot: Bot) -> Bot:
        """Returns the bot with its own model and budget, and without its restrictions of tools, which mean other tools."""
        return Bot(model=bot.model, budget=NO_BUDGET if self.meter is None else bot.budget)


class _Shared:
    """A provider that stays open when the runtime of a review is closed."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.name = provider.name

    async def complete(self, request: ModelRequest) -> ModelReply:
        return await self._provider.complete(request)

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        return self._provider.stream(request)

    async def models(self) -> Sequence[JsonObject]:
        return await self._provider.models()

    async def close(self) -> None:
        """Closes nothing: the host closes its provider."""
