"""Lists of people in settings: ids of principals, and roles as `role:NAME`."""

from __future__ import annotations

from collections.abc import Iterable

from toolcaddie.core.control import Principal

ROLE = "role:"
"""What stands before the name of a role."""


def is_named(people: Iterable[str], person: Principal) -> bool:
    """Returns True if a list names this person, by id or by role."""
    return any(
        person.role == each.removeprefix(ROLE) if each.startswith(ROLE) else person.id == each for each in people
    )
