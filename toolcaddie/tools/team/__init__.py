"""The source `team`: bots ask each other, with `delegate_to_bot` and `collaborate`.

[[source]]
type = "team"
collaboration = true      # default: only delegate_to_bot
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.numbers import Seconds
from toolcaddie.parts import Parts
from toolcaddie.tools.team.sessions import Sessions
from toolcaddie.tools.team.settings import TeamSettings
from toolcaddie.tools.team.source import TeamSource

UpToHundred = Annotated[int, Meta(ge=1, le=100)]


def team(
    *,
    delegation: bool = True,
    collaboration: bool = False,
    target_tools: bool = True,
    step_timeout: Seconds = 60.0,
    session_ttl: Seconds = 600.0,
    rounds: UpToHundred = 5,
    visible_turns: UpToHundred = 3,
    cooldown: Seconds = 30.0,
    parts: Parts,
) -> TeamSource:
    """Returns the source. It has no tools while there are fewer than two bots.

    `target_tools`: False if bots that are asked have no tools. `step_timeout`: seconds for one answer. `session_ttl`: seconds
    after which an unused session is over. `rounds`: answers after which two bots pause for `cooldown` seconds. `visible_turns`:
    messages of a session that are posted in a group. Raises `ConfigError` for collaboration without a store for its sessions.
    """
    if collaboration and parts.store is None:
        raise ConfigError(
            "source team: collaboration needs a store for its sessions; pass one, as in Parts(store=store)"
        )
    settings = TeamSettings(
        delegation=delegation,
        collaboration=collaboration,
        target_tools=target_tools,
        step_timeout=step_timeout,
        session_ttl=session_ttl,
        rounds=rounds,
        visible_turns=visible_turns,
        cooldown=cooldown,
    )
    sessions = None if parts.store is None else Sessions(parts.store, settings, clock=parts.clock)
    return TeamSource(parts, settings, sessions)


__all__ = ["TeamSource", "team"]
