"""systemd's manager of units, over D-Bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import Any, Literal

from toolcaddie.core.errors import HostError
from toolcaddie.tools.host.dbus import DBus, DBusRefusedError, Method, Reply
from toolcaddie.tools.host.systemd.jobs import MANAGER, MATCH, Jobs
from toolcaddie.tools.host.systemd.units import Listed, Unit, unit_of
from toolcaddie.tools.host.words import words

Verb = Literal["start", "stop", "restart"]

SYSTEMD = "org.freedesktop.systemd1"
_UNIT = f"{SYSTEMD}.Unit"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_PATH = "/org/freedesktop/systemd1"
_METHODS: dict[Verb, str] = {"start": "StartUnit", "stop": "StopUnit", "restart": "RestartUnit"}
_SERVICE_PROPERTIES = ("MainPID", "Result", "ExecMainCode", "ExecMainStatus")
_ALREADY_SUBSCRIBED = f"{SYSTEMD}.AlreadySubscribed"
_ERROR = "org.freedesktop.DBus.Error"
_DENIED = "systemd does not allow it to the user of this process; a rule of polkit for that user, or root, would"
_ABSENT = "systemd is not on this bus, so this machine does not run it, or it does not answer there"
_REASONS = {
    f"{SYSTEMD}.NoSuchUnit": "there is no such unit on this machine",
    f"{SYSTEMD}.UnitMasked": "it is masked; somebody has to unmask it on the machine first",
    f"{SYSTEMD}.OnlyByDependency": "it may only be started or stopped through other units",
    f"{_ERROR}.AccessDenied": _DENIED,
    f"{_ERROR}.InteractiveAuthorizationRequired": _DENIED,
    f"{_ERROR}.FileNotFound": "it has no unit file on this machine",
    f"{_ERROR}.ServiceUnknown": _ABSENT,
    f"{_ERROR}.NameHasNoOwner": _ABSENT,
}


class Manager:
    """Reads and changes units. All methods raise `HostError`."""

    def __init__(self, address: str, *, timeout: float, job_timeout: float) -> None:
        self._jobs = Jobs()
        self._bus = DBus(address, timeout=timeout, match=MATCH, on_signal=self._jobs.receive, on_lost=self._jobs.lose)
        self._job_timeout = job_timeout

    @property
    def place(self) -> str:
        return self._bus.place

    async def close(self) -> None:
        await self._bus.close()

    async def version(self) -> str:
        return str(await self._get(_PATH, MANAGER, "Version"))

    # --- reading -------------------------------------------------------------------------------------------------------

    async def unit(self, name: str) -> Unit:
        """Returns a unit by its name or an alias. systemd loads it if it is not loaded, which changes nothing."""
        return await self._read(name, await self._loaded(name))

    async def aliases(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Returns the other names of each unit."""

        async def all_names(name: str) -> list[str]:
            return list(await self._get(await self._loaded(name), _UNIT, "Names"))

        found = await asyncio.gather(*map(all_names, names))
        return {name: tuple(sorted({*others} - {name})) for name, others in zip(names, found, strict=True)}

    async def _loaded(self, name: str) -> str:
        """Returns the object path of a unit."""
        return str((await self._manage(name, "LoadUnit", "s", name)).body[0])

    async def _read(self, name: str, path: str) -> Unit:
        properties = (await self._call(name, path, _PROPERTIES, "GetAll", "s", _UNIT)).body[0]
        if properties["LoadState"] == "not-found":
            raise HostError(
                f"{name}: there is no such unit on this machine; systemd_list_units names those that are loaded"
            )
        service: dict[str, Any] = {}
        if properties["Id"].endswith(".service"):
            values = await asyncio.gather(
                *(self._get(path, f"{SYSTEMD}.Service", each) for each in _SERVICE_PROPERTIES)
            )
            service = dict(zip(_SERVICE_PROPERTIES, values, strict=True))
        return unit_of(properties, service)

    async def loaded(self, patterns: Sequence[str], states: Sequence[str] = ()) -> list[Listed]:
        """Returns the loaded units whose names fit one of the patterns, and that are in one of the states."""
        reply = await self._manage("units", "ListUnitsByPatterns", "asas", list(states), list(patterns))
        return [
            Listed(unit=row[0], description=words(row[1], nothing=""), load=row[2], active=row[3], sub=row[4])
            for row in reply.body[0]
        ]

    async def files(self, patterns: Sequence[str]) -> dict[str, str]:
        """Returns the states of the unit files whose names fit one of the patterns."""
        reply = await self._manage("unit files", "ListUnitFilesByPatterns", "asas", [], list(patterns))
        return {PurePosixPath(path).name: state for path, state in reply.body[0]}

    async def file_state(self, name: str) -> str:
        """Returns the state of a unit's file, such as `enabled`; empty: it has none."""
        try:
            return str((await self._manage(name, "GetUnitFileState", "s", name)).body[0])
        except DBusRefusedError as error:
            if error.name in (f"{_ERROR}.FileNotFound", f"{SYSTEMD}.NoSuchUnit"):
                return ""
            raise

    # --- changing ------------------------------------------------------------------------------------------------------

    async def run(self, verb: Verb, name: str) -> Unit:
        """Starts, stops or restarts a unit, waits for the end of systemd's job, and returns the unit as it is then."""
        async with self._kept(name) as path:
            result = await self._job(verb, name)
            unit = await self._read(name, path)
        if problem := _problem(verb, result, unit):
            raise HostError(f"{verb} of {name} failed: {problem}; it is {unit.words}")
        return unit

    @asynccontextmanager
    async def _kept(self, name: str) -> AsyncIterator[str]:
        """Keeps a unit loaded, and yields its path. Otherwise systemd forgets a unit that is not active, and why it is not.
        A rule of polkit may allow to start a unit but not to keep it; then the unit is started all the same."""
        path = await self._loaded(name)
        is_kept = await self._refers(name, path, "Ref")
        try:
            yield path
        finally:
            if is_kept:  # at the latest, it ends with the connection
                await self._refers(name, path, "Unref")

    async def _refers(self, name: str, path: str, member: Literal["Ref", "Unref"]) -> bool:
        """Returns True if systemd has counted this reference to a unit, or no longer counts it."""
        try:
            await self._call(name, path, _UNIT, member)
        except HostError:
            return False
        return True

    async def _job(self, verb: Verb, name: str) -> str:
        """Returns the result of a job, such as `done`, when it has ended."""
        with self._jobs.watching() as watch:
            await self._subscribe()
            reply = await self._manage(name, _METHODS[verb], "ss", name, "replace")
            try:
                async with asyncio.timeout(self._job_timeout):
                    return await watch.result(reply.sender, reply.body[0])
            except TimeoutError as error:
                raise HostError(
                    f"{verb} of {name} has not ended within {self._job_timeout:g} s and goes on; read its status later"
                ) from error

    async def enable(self, names: Sequence[str]) -> list[str]:
        """Enables units, and returns the changes of links as lines. Raises `HostError` for a unit that cannot be enabled."""
        reply = await self._manage(_several(names), "EnableUnitFiles", "asbb", list(names), False, False)
        has_install, changes = reply.body
        await self.reload()
        if not has_install:
            raise HostError(f"{_several(names)}: there is nothing to enable: the unit file has no section [Install]")
        return _lines(changes)

    async def disable(self, names: Sequence[str]) -> list[str]:
        """Disables units, and returns the changes of links as lines."""
        reply = await self._manage(_several(names), "DisableUnitFiles", "asb", list(names), False)
        await self.reload()
        return _lines(reply.body[0])

    async def reload(self) -> None:
        """Makes systemd read all unit files again. It answers when it has done so."""
        await self._manage("daemon-reload", "Reload", timeout=self._job_timeout)

    # --- calls ---------------------------------------------------------------------------------------------------------

    async def _subscribe(self) -> None:
        """Makes systemd send signals. It is asked each time, because it forgets its subscribers when it is restarted."""
        try:
            await self._manage("signals", "Subscribe")
        except DBusRefusedError as error:
            if error.name != _ALREADY_SUBSCRIBED:
                raise

    async def _get(self, path: str, interface: str, name: str) -> Any:
        reply = await self._call(name, path, _PROPERTIES, "Get", "ss", interface, name)
        return reply.body[0]

    async def _manage(
        self, subject: str, member: str, signature: str = "", *body: Any, timeout: float | None = None
    ) -> Reply:
        return await self._call(subject, _PATH, MANAGER, member, signature, *body, timeout=timeout)

    async def _call(
        self,
        subject: str,
        path: str,
        interface: str,
        member: str,
        signature: str = "",
        *body: Any,
        timeout: float | None = None,
    ) -> Reply:
        method = Method(
            destination=SYSTEMD, path=path, interface=interface, member=member, signature=signature, body=body
        )
        try:
            return await self._bus.call(method, timeout=timeout)
        except DBusRefusedError as error:
            reason = _REASONS.get(error.name, "systemd refused it")
            raise DBusRefusedError(f"{subject}: {reason} ({error})", name=error.name) from error


def _problem(verb: Verb, result: str, unit: Unit) -> str:
    """Returns the reason why a job has not done what was asked, whatever it says; empty: it has."""
    if result != "done":
        return f"systemd's job ended as {result}"
    if verb == "stop":
        return "it is running again" if unit.is_active or unit.active == "activating" else ""
    if unit.unmet_condition and unit.active == "inactive":
        return "a condition of its unit file does not hold, so systemd did not start it"
    if unit.active == "inactive" and not unit.since:
        return "it is not running, and systemd has forgotten whether it ran"
    return "it has failed since" if unit.active == "failed" else ""


def _several(names: Sequence[str]) -> str:
    """Returns names for an error, of which there may be hundreds."""
    return words(", ".join(names))


def _lines(changes: Iterable[Sequence[str]]) -> list[str]:
    return [words(f"{kind} {file} -> {source}" if source else f"{kind} {file}") for kind, file, source in changes]
