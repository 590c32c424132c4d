"""A tool that several processes of a test share: an approval counts only for the function that a person was asked about."""

from __future__ import annotations

import sys
from pathlib import Path

from toolcaddie import tool

NOBODY = Path()
paid = NOBODY
"""The file that gets a line for each payment. A process that must not pay leaves it at `NOBODY`."""
waits = False
"""True: the tool waits in the middle, until the process is killed or goes on."""


def wait_here() -> None:
    print("here", flush=True)
    sys.stdin.readline()


@tool
def pay(to: str) -> str:
    """Pay somebody."""
    if paid == NOBODY:
        raise AssertionError("was paid a second time")
    with paid.open("a") as file:
        file.write(f"{to}\n")
    if waits:
        wait_here()
    return f"paid {to}"
