"""Levels: what people may do in the console, by the role of their API key.

A viewer reads, an operator also acts (answers questions, runs requests, settles calls), and an admin also changes keys, policy
and sources. Whoever has no level sees only the pages that judge each person themselves, such as the questions to that person.
"""

from __future__ import annotations

from typing import Literal, get_args

from toolcaddie.app.settings.console import ConsoleSettings
from toolcaddie.core.errors import RequestError
from toolcaddie.doors.console.sessions import Session

Level = Literal["viewer", "operator", "admin"]

_LEVELS: tuple[Level, ...] = get_args(Level)
_OPERATORS_TENANT = "default"
"""The tenant of the people who run the server. Only they see what belongs to no tenant."""


class Levels:
    """Judges what people may do."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._roles = dict(zip(_LEVELS, (settings.viewers, settings.operators, settings.admins), strict=True))

    def of(self, session: Session) -> Level | None:
        """Returns the highest level of a person; None: the role of the key has none. Where the server has no keys, everybody on
        this machine is an admin, as for the gateway."""
        if not session.key_id:
            return "admin"
        return self.of_role(session.person.role)

    def of_role(self, role: str | None) -> Level | None:
        """Returns the highest level of a role; None: it has none."""
        return next((level for level in reversed(_LEVELS) if role in self._roles[level]), None)

    def may(self, session: Session, least: Level | None, *, of_server: bool = False) -> bool:
        """Returns True if a person has at least this level. `of_server`: True for what belongs to no tenant."""
        if least is None:
            return True
        level = self.of(session)
        if level is None or (of_server and session.person.tenant != _OPERATORS_TENANT):
            return False
        return _LEVELS.index(level) >= _LEVELS.index(least)

    def check(self, session: Session, least: Level | None, *, of_server: bool = False) -> None:
        """Raises `RequestError` unless the person has at least this level."""
        if self.may(session, least, of_server=of_server):
            return
        if of_server and session.person.tenant != _OPERATORS_TENANT:
            raise RequestError(
                f"this page is for those who run the server, and you belong to the tenant {session.person.tenant}",
                code="forbidden",
            )
        assert least is not None
        roles = " or ".join(map(repr, self._roles[least])) or "of a higher level"
        raise RequestError(
            f"this needs the level {least}; ask an admin for an API key whose role is {roles} "
            "(toolcaddie keys add NAME --role ROLE)",
            code="forbidden",
        )

    def tenant_of(self, session: Session) -> str | None:
        """Returns the tenant whose data a person sees; None: an admin of the server sees all."""
        sees_all = session.person.tenant == _OPERATORS_TENANT and self.of(session) == "admin"
        return None if sees_all else session.person.tenant
