"""A port for a server that a test, a benchmark or an attack starts."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Returns a port of this machine that nothing uses now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
