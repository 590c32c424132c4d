"""Runs programs of the system that change it, with fixed arguments and without a shell."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress

from toolcaddie.core.errors import HostError

_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_ENVIRONMENT = {"PATH": _PATH, "LANG": "C.UTF-8"}
_SECONDS = 30.0
_MOST_WORDS = 500
"""Characters of a program's error message that are shown."""


def place_of(program: str) -> str | None:
    """Returns the path of a program of the system; None: it is not installed."""
    return shutil.which(program, path=_PATH)


async def run(program: str, *arguments: str, seconds: float = _SECONDS) -> None:
    """Runs a program to its end. It is killed if that takes too long or is cancelled. Raises `HostError` if it fails."""
    place = place_of(program)
    if place is None:
        raise HostError(f"the program {program} is not installed")
    process = await asyncio.create_subprocess_exec(
        place,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=_ENVIRONMENT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            _, errors = await process.communicate()
    except TimeoutError as error:
        raise HostError(f"{program} did not end within {seconds:g} seconds and was killed") from error
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        words = " ".join(errors.decode(errors="replace").split())[:_MOST_WORDS]
        raise HostError(f"{program} failed with exit code {process.returncode}: {words or 'it says nothing'}")
