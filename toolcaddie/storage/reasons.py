"""The reason that a database gives for an error, for people who do not know its statements."""

from __future__ import annotations

from sqlalchemy.exc import SQLAlchemyError


def reason_of(error: SQLAlchemyError) -> str:
    """Returns one line, without the statement and the values that a driver or SQLAlchemy adds behind it: they belong to requests
    of others too."""
    lines = str(getattr(error, "orig", None) or error).splitlines()
    return lines[0] if lines else type(error).__name__
