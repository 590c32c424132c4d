"""Packages by PackageKit, over D-Bus."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from toolcaddie.core.errors import HostError
from toolcaddie.core.states import BackEnd
from toolcaddie.tools.host.extra import remedy_of
from toolcaddie.tools.host.states.packagekit.managers import (
    Consequences,
    Package,
    Wanted,
    check_consequences,
    check_number,
)
from toolcaddie.tools.host.states.packagekit.names import VERSION, fits, is_pattern, prefix
from toolcaddie.tools.host.states.packagekit.transactions import Reported, Transactions
from toolcaddie.tools.host.words import words

_INSTALLED, _AVAILABLE = 1, 2
_UPDATING, _INSTALLING, _REMOVING, _OBSOLETING, _REINSTALLING, _DOWNGRADING = 11, 12, 13, 15, 19, 20
_THIS_ARCHITECTURE = 1 << 18
_TRUSTED, _SIMULATE = 1 << 1, 1 << 2
_OF_NO_REPOSITORY = ("local", "installed", "now", "")


class PackageKit:
    """Implements `PackageManager`. `bus`: address of the message bus; empty: the system bus. `timeout`: seconds for reading;
    `change_timeout`: seconds for a change."""

    def __init__(self, bus: str, *, timeout: float, change_timeout: float) -> None:
        self._transactions = Transactions(bus, timeout=timeout)
        self._change_timeout = change_timeout

    async def is_present(self) -> bool:
        try:
            await self._transactions.start()
        except HostError:
            return False
        return True

    async def packages(self, patterns: Sequence[str]) -> Mapping[str, Package]:
        names = [pattern for pattern in patterns if not is_pattern(pattern)]
        reported = list(await self._resolved(names)) if names else []
        for beginning in sorted({prefix(pattern) for pattern in patterns if is_pattern(pattern)}):
            reported += await self._transactions.run("SearchNames", "tas", _THIS_ARCHITECTURE, [beginning])
        fitting = [each for each in reported if fits(each.name, patterns) and VERSION.fullmatch(each.version)]
        result = {name: _package(name, fitting) for name in {each.name for each in fitting}}
        check_number(result)
        return result

    async def change(self, wanted: Wanted) -> None:
        resolved = await self._resolved([*wanted.install, *wanted.remove])
        install = _identifiers(wanted.install, resolved, _AVAILABLE)
        remove = _identifiers(wanted.remove, resolved, _INSTALLED)
        if install:
            _check(wanted, await self._install(install, simulate=True))
        if remove:
            _check(wanted, await self._remove(remove, simulate=True))
            await self._remove(remove)
        if install:
            await self._install(install)

    async def back_end(self) -> BackEnd:
        name = "PackageKit over D-Bus"
        try:
            await self._transactions.start()
            properties = await self._transactions.properties()
        except HostError as error:
            return BackEnd(name=name, present=False, detail=str(error), remedy=remedy_of(error, "install packagekit"))
        version = ".".join(str(properties.get(f"Version{part}", "?")) for part in ("Major", "Minor", "Micro"))
        return BackEnd(name=name, present=True, detail=words(f"{version}, {properties.get('BackendName', '?')}"))

    async def close(self) -> None:
        await self._transactions.close()

    async def _resolved(self, names: Sequence[str]) -> Sequence[Reported]:
        return await self._transactions.run("Resolve", "tas", _THIS_ARCHITECTURE, sorted(names))

    async def _install(self, identifiers: Sequence[str], *, simulate: bool = False) -> Sequence[Reported]:
        flags = _TRUSTED | (_SIMULATE if simulate else 0)
        return await self._transactions.run(
            "InstallPackages", "tas", flags, list(identifiers), seconds=self._change_timeout
        )

    async def _remove(self, identifiers: Sequence[str], *, simulate: bool = False) -> Sequence[Reported]:
        flags = _TRUSTED | (_SIMULATE if simulate else 0)
        return await self._transactions.run(
            "RemovePackages", "tasbb", flags, list(identifiers), False, False, seconds=self._change_timeout
        )


def _package(name: str, reported: Sequence[Reported]) -> Package:
    own = [each for each in reported if each.name == name]
    installed = next((each for each in own if each.info == _INSTALLED), None)
    available = next((each.version for each in own if each.info == _AVAILABLE), "")
    if installed is None:
        return Package(candidate=available)
    if not available and installed.origin not in _OF_NO_REPOSITORY:  # the newest one is not listed twice
        available = installed.version
    return Package(installed=installed.version, candidate=available)


def _identifiers(versions: Mapping[str, str], resolved: Sequence[Reported], info: int) -> Sequence[str]:
    """Returns the identifiers of packages. Raises `HostError` if one is no longer there in that version."""
    known = {(each.name, each.version): each.identifier for each in resolved if each.info == info}
    for name, version in versions.items():
        if (name, version) not in known:
            state = "available" if info == _AVAILABLE else "installed"
            raise HostError(f"nothing was done: {name} {version} is not {state} any more")
    return [known[each] for each in sorted(versions.items())]


def _check(wanted: Wanted, simulated: Sequence[Reported]) -> None:
    def names(*infos: int) -> Collection[str]:
        return {each.name for each in simulated if each.info in infos}

    check_consequences(
        wanted,
        Consequences(
            installed=names(_INSTALLING),
            updated=names(_UPDATING, _REINSTALLING, _DOWNGRADING),
            removed=names(_REMOVING, _OBSOLETING),
        ),
    )
