"""The policy as people check, explain and try it: the same on the command line and in the console."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from toolcaddie.app.policy_names import names_without_meaning
from toolcaddie.app.runtimes import host_parts, policy_of
from toolcaddie.app.settings import Settings
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.control.policy.cedar.explaining import REPLAYED, Replay, replay
from toolcaddie.control.policy.cedar.schema import problems_of
from toolcaddie.control.policy.cedar.unused import CHANNELS, meant
from toolcaddie.control.visibility import Visibility
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.storage import ApiKey, RunQuery
from toolcaddie.ports import EventLog, Policy
from toolcaddie.registry import Registry
from toolcaddie.util.replacing import replace

_PAGE = 200


def policy_in(settings: Settings) -> CedarPolicy:
    """Returns the policy of the settings. Raises `ConfigError` for one that is not in Cedar."""
    return cedar(policy_of(settings, Registry(), host_parts(settings)), settings)


def cedar(policy: Policy, settings: Settings) -> CedarPolicy:
    """Returns a policy. Raises `ConfigError` for one that is not in Cedar. `settings`: those that name it."""
    if isinstance(policy, CedarPolicy):
        return policy
    kind = "" if settings.policy is None else settings.policy.type
    raise ConfigError(f"policy.type is {kind!r}; only rules of the type 'cedar' can be read, explained and tried")


def problems_of_rules(
    settings: Settings, policy: CedarPolicy, catalog: Catalog, keys: Iterable[ApiKey]
) -> Sequence[str]:
    """Returns what is wrong with the rules of a policy, and which of their names nothing has. `settings`: those with this policy;
    `catalog`: all tools; `keys`: the API keys, whose roles and bots are known."""
    return [*problems_of(policy.rules, catalog.tools), *names_without_meaning(settings, catalog, keys)]


def checked_caller(caller: Principal) -> Principal:
    """Returns the caller. Raises `RequestError` for a channel that is a slip of a known one; an application may have others."""
    channel = caller.channel
    if channel is not None and channel not in CHANNELS and (advice := meant(channel, CHANNELS)):
        raise RequestError(f"no request comes by the channel {channel!r}{advice}", param="channel")
    return caller


async def replayed(
    log: EventLog,
    policy: CedarPolicy,
    visibility: Visibility,
    catalog: Catalog,
    *,
    most: int,
    tenant: str | None = None,
) -> Replay:
    """Judges the calls of the newest runs by a policy, in another thread. `most`: the largest number of runs; `tenant`: only
    runs of this tenant."""
    result = Replay()
    query = RunQuery(limit=min(_PAGE, most), tenant=tenant)
    while most > 0 and (runs := await log.runs(query)):
        runs = runs[:most]
        records = await log.records([run.run_id for run in runs], REPLAYED)
        await asyncio.to_thread(replay, records, policy, visibility, catalog, result)
        most -= len(runs)
        query = replace(query, before=runs[-1].cursor)
    return result
