"""Says whether this installation can do durable work. Knows only the name of the package, because loading it is slow."""

from __future__ import annotations

from importlib.util import find_spec

PACKAGE = "dbos"
REMEDY = "install the extra `bots`: pip install 'toolcaddie[bots]'"


def is_installed() -> bool:
    """Returns True if the package of the durable queue is installed."""
    return find_spec(PACKAGE) is not None
