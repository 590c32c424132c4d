"""The settings of the source `team`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamSettings:
    """How bots may ask each other."""

    delegation: bool = True
    """True: there is `delegate_to_bot`."""
    collaboration: bool = False
    """True: there is `collaborate`."""
    target_tools: bool = True
    """False: a bot that is asked by `collaborate` has no tools, as with `delegate_to_bot`."""
    step_timeout: float = 60.0
    """Seconds that one answer may take."""
    session_ttl: float = 600.0
    """Seconds after which an unused session is over."""
    rounds: int = 5
    """Answers that one bot may get from another before both pause."""
    visible_turns: int = 3
    """Messages of one session that may be posted in a group."""
    cooldown: float = 30.0
    """Seconds of the pause, from the last answer on."""
