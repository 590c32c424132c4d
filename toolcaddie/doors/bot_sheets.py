"""The bots of the settings with their tools, as people read them, for the command line and the console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from toolcaddie.app.models import PRACTICE, asked_of
from toolcaddie.app.settings import Settings
from toolcaddie.control.bots import Bots
from toolcaddie.core.bots import Mode
from toolcaddie.core.control import Principal
from toolcaddie.core.key_limits import Allowance
from toolcaddie.core.run import RunRequest
from toolcaddie.ports import KeyMeter
from toolcaddie.runtime import Runtime
from toolcaddie.runtime.budgets import Budgets

MODES: Sequence[Mode] = get_args(Mode)


def model_text(of_bot: str | None, settings: Settings) -> str:
    """Returns the model of a bot, or else that of the settings; `practice` if none is named and there is no key for one."""
    return of_bot or settings.model or (PRACTICE if asked_of(settings)[0] == PRACTICE else "that of the request")


def tools_in(name: str, mode: Mode, runtime: Runtime, tenant: str = Principal().tenant) -> Sequence[str]:
    """Returns the names of the tools that a bot has in a mode for a tenant, whose catalog is held."""
    request = RunRequest(messages=(), principal=Principal(bot=name, tenant=tenant), mode=mode)
    return [tool.name for tool in runtime.view(request)]


def missing_in(name: str, mode: Mode, tools: Sequence[str], runtime: Runtime) -> Mapping[str, str]:
    """Returns the tools of the catalog that a bot does not have, each with the setting that removes it."""
    present = frozenset(tools)
    return {
        tool.name: runtime.bots[name].removes(tool.name, tool.category, mode, key=f"bots.{name}")
        for tool in runtime.source.snapshot()
        if tool.name not in present
    }


async def used_of(name: str, settings: Settings, runtime: Runtime, meter: KeyMeter | None) -> Sequence[Allowance]:
    """Returns what a bot has used of its budget today; empty: it has none."""
    budgets = Budgets(bots=Bots(settings.bots), meter=meter, prices_of=runtime.prices_of)
    return await budgets.used(Principal(bot=name))
