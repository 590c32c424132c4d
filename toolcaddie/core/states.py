"""States of a host, such as its network links or its users, and the changes between two states.

A state is a mapping from the name of a thing, such as `eth0`, to its attributes. Whoever describes a desired state names only
the things and attributes that matter; `None` in place of the attributes means that the thing must not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from toolcaddie.core.tool import JsonObject

State = Mapping[str, JsonObject]
"""The attributes of each thing, by the name of the thing."""
DesiredState = Mapping[str, JsonObject | None]
"""The attributes that each named thing must have; None: it must not exist."""

Action = Literal["create", "modify", "delete", "no-op"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between the present and the desired attributes of one thing."""

    action: Action
    target: str
    """The name of the thing."""
    before: JsonObject | None = None
    """All its attributes now; None: it does not exist."""
    after: JsonObject | None = None
    """All its attributes after the change; None: it will not exist."""


class StateDiff(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that lead from the present state to a desired one."""

    plugin: str
    base: str
    """Digest of the present attributes of all targets. The changes are made only while it holds."""
    changes: tuple[Change, ...] = ()

    @property
    def effective(self) -> tuple[Change, ...]:
        """The changes that change something."""
        return tuple(change for change in self.changes if change.action != "no-op")


class BackEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A program or service of this machine on which a group of tools depends."""

    name: str
    """Such as `systemd over D-Bus`."""
    present: bool
    detail: str
    """The version or address found, or the reason why it cannot be used."""
    remedy: str = ""
    """The step that makes it usable. Empty: it is, or nothing can be done."""
