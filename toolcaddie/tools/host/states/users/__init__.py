"""The state plugin `users`: the users and groups in the files of this machine. Passwords are no part of it."""

from __future__ import annotations

from toolcaddie.tools.host.states.users.plugin import users

__all__ = ["users"]
