"""Runs `nft`. It reads its commands as JSON from stdin, all in one transaction. The text form is never used, so no value can
become a command."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import msgspec

from toolcaddie.core.errors import ConfigError, HostError
from toolcaddie.core.states import BackEnd
from toolcaddie.guards.processes import run

_SECONDS = 20.0
_OUTPUT_BYTES = 8_000_000
_ERROR_LENGTH = 300
_AT_ONCE = 4
"""Programs that run at the same time; further calls wait for their turn."""
_FAMILY = "inet"

NftObject = dict[str, Any]
"""An object of libnftables' JSON: one key, its kind, with its properties."""


class Nft:
    """A table of the family inet that belongs to one plugin. Other tables are never changed. Raises `ConfigError` unless
    `program` is an absolute path."""

    def __init__(self, program: str, table: str) -> None:
        if not PurePosixPath(program).is_absolute():
            raise ConfigError(f"the program {program!r} is not an absolute path, such as /usr/sbin/nft")
        self._program = program
        self.name = f"{_FAMILY} {table}"
        self.place = {"family": _FAMILY, "table": table}
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._itself = {"family": _FAMILY, "name": table}

    async def tables(self) -> list[str]:
        """Returns all tables, as `inet filter`. Raises `HostError`."""
        objects = await self._objects({"list": {"tables": None}})
        return [f"{each['table']['family']} {each['table']['name']}" for each in objects if "table" in each]

    async def listing(self) -> list[NftObject] | None:
        """Returns the objects of the table; None: there is no such table. Raises `HostError`."""
        try:
            return await self._objects({"list": {"table": self._itself}})
        except _MissingError:
            return None

    async def make(self, commands: Sequence[NftObject]) -> None:
        """Carries out commands, all or none, after creating the table if it is missing. Raises `HostError`."""
        await self._output({"add": {"table": self._itself}}, *commands)

    async def delete(self) -> None:
        """Deletes the table, if there is one. Raises `HostError`."""
        await self._output({"add": {"table": self._itself}}, {"delete": {"table": self._itself}})

    def close(self) -> None:
        """Forgets the event loop in which calls have waited for their turn."""
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def back_end(self, detail: str = "") -> BackEnd:
        """Returns whether the program is there and may be used."""
        try:
            objects = await self._objects({"list": {"tables": None}})
        except HostError as error:
            remedy = "install nftables, and run Toolcaddie as root or with CAP_NET_ADMIN"
            return BackEnd(name="nftables", present=False, detail=str(error), remedy=remedy)
        version = next((each["metainfo"]["version"] for each in objects if "metainfo" in each), "of unknown version")
        return BackEnd(name="nftables", present=True, detail=f"{self._program} {version}{detail}")

    async def _objects(self, *commands: NftObject) -> list[NftObject]:
        try:
            objects: list[NftObject] = msgspec.json.decode(await self._output(*commands))["nftables"]
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise HostError(f"{self._program} has not answered with JSON as nft does") from error
        return objects

    async def _output(self, *commands: NftObject) -> bytes:
        document = msgspec.json.encode({"nftables": commands})
        try:
            async with self._turns, asyncio.timeout(_SECONDS):
                completed = await run(
                    [self._program, "-j", "-f", "-"], stdin=document, cwd="/", env={}, max_output=_OUTPUT_BYTES
                )
        except TimeoutError as error:
            raise HostError(f"{self._program} did not end within {_SECONDS:.0f} s") from error
        except OSError as error:
            raise HostError(f"{self._program} cannot be started: {error.strerror}; install nftables") from error
        if completed.code < 0:
            raise HostError(f"{self._program} was ended by signal {-completed.code}")
        if completed.code != 0:
            missing = b"No such file or directory" in completed.stderr
            raise (_MissingError if missing else HostError)(f"{self._program} refuses: {_reason(completed.stderr)}")
        if completed.cut:
            raise HostError(
                f"{self._program} lists more than {_OUTPUT_BYTES // 1_000_000} MB; that is too much to read"
            )
        return completed.stdout


class _MissingError(HostError):
    """A command names something that does not exist."""


def _reason(stderr: bytes) -> str:
    text = stderr.decode("utf-8", "replace").strip()
    if "Operation not permitted" in text:
        return "not permitted; reading and changing filter rules needs root or CAP_NET_ADMIN"
    return (text.splitlines() or ["it has given no reason"])[0][:_ERROR_LENGTH]
