"""Services that a test puts on a private bus: a polkit that permits everything, and a scripted PackageKit.

The scripted one does what the real one does rarely, such as failing in the middle. It is strict: it accepts what the real one
accepts, and nothing else.
"""

# Annotations are signatures of D-Bus here, which dbus-fast reads when the class is made.
# ruff: noqa: F722, F821
# mypy: ignore-errors

import asyncio
from dataclasses import dataclass, field
from typing import Any

from dbus_fast import DBusError, PropertyAccess
from dbus_fast.service import ServiceInterface, dbus_method, dbus_property, dbus_signal

_TRUSTED, _SIMULATE = 1 << 1, 1 << 2
_HINTS = {"interactive=false", "background=false", "locale=C"}


class Polkit(ServiceInterface):
    """Permits everything."""

    def __init__(self) -> None:
        super().__init__("org.freedesktop.PolicyKit1.Authority")

    @dbus_method()
    def CheckAuthorization(
        self, subject: "(sa{sv})", action: "s", details: "a{ss}", flags: "u", cancellation: "s"
    ) -> "(bba{ss})":
        return [True, False, {}]

    @dbus_property(access=PropertyAccess.READ)
    def BackendName(self) -> "s":
        return "scripted"


@dataclass(slots=True)
class Script:
    """The packages of a scripted PackageKit, and what the test has told it."""

    installed: dict[str, str] = field(default_factory=dict)
    available: dict[str, str] = field(default_factory=dict)
    fails: dict[str, str] = field(default_factory=dict)
    """Words with which transactions fail, by the method that began them."""
    ends: dict[str, int] = field(default_factory=dict)
    """Numbers with which they end without a word."""
    stalls: set[str] = field(default_factory=set)
    """Methods whose transactions never end by themselves."""
    drops: set[str] = field(default_factory=set)
    """Methods whose transactions vanish without an end."""
    strange: list[str] = field(default_factory=list)
    """Identifiers of packages that each `Resolve` reports, too."""
    calls: list[str] = field(default_factory=list)
    cancelled: int = 0

    async def export(self, bus: Any) -> None:
        bus.export("/org/freedesktop/PackageKit", Daemon(bus, self))
        await bus.request_name("org.freedesktop.PackageKit")


class Daemon(ServiceInterface):
    def __init__(self, bus: Any, script: Script) -> None:
        super().__init__("org.freedesktop.PackageKit")
        self._bus = bus
        self._script = script
        self._count = 0

    @dbus_method()
    def CreateTransaction(self) -> "o":
        self._count += 1
        path = f"/{self._count}_scripted"
        self._bus.export(path, Transaction(self._script))
        return path

    @dbus_property(access=PropertyAccess.READ)
    def VersionMajor(self) -> "u":
        return 1

    @dbus_property(access=PropertyAccess.READ)
    def BackendName(self) -> "s":
        return "scripted"


class Transaction(ServiceInterface):
    def __init__(self, script: Script) -> None:
        super().__init__("org.freedesktop.PackageKit.Transaction")
        self._script = script
        self._has_hints = False
        self._is_used = False

    # --- methods ---------------------------------------------------------------------------------------------------------

    @dbus_method()
    def SetHints(self, hints: "as"):
        self._expect(set(hints) <= _HINTS, f"unknown hints {hints}")
        self._has_hints = True

    @dbus_method()
    def Resolve(self, wanted: "t", packages: "as"):
        self._begin("Resolve", [name for name in packages if ";" in name])
        self._report({name for name in packages if name in self._known()})
        for identifier in self._script.strange:
            self.Package(1, identifier, "")
        self._end("Resolve")

    @dbus_method()
    def SearchNames(self, wanted: "t", values: "as"):
        self._begin("SearchNames", [])
        self._report({name for name in self._known() if all(value in name for value in values)})
        self._end("SearchNames")

    @dbus_method()
    def InstallPackages(self, transaction_flags: "t", package_ids: "as"):
        self._change("InstallPackages", transaction_flags, package_ids, self._script.available, 12)

    @dbus_method()
    def RemovePackages(self, transaction_flags: "t", package_ids: "as", allow_deps: "b", autoremove: "b"):
        self._expect(not allow_deps and not autoremove, "removes more than it was told")
        self._change("RemovePackages", transaction_flags, package_ids, self._script.installed, 13)

    @dbus_method()
    def Cancel(self):
        self._script.cancelled += 1

    # --- signals ---------------------------------------------------------------------------------------------------------

    @dbus_signal()
    def Package(self, info, package_id, summary) -> "uss":
        return [info, package_id, summary]

    @dbus_signal()
    def ErrorCode(self, code, details) -> "us":
        return [code, details]

    @dbus_signal()
    def Finished(self, end, runtime) -> "uu":
        return [end, runtime]

    @dbus_signal()
    def Destroy(self) -> "":
        return None

    # --- what it does ----------------------------------------------------------------------------------------------------

    def _known(self) -> set[str]:
        return {*self._script.installed, *self._script.available}

    def _expect(self, holds: bool, words: str) -> None:
        if not holds:
            raise DBusError("org.freedesktop.PackageKit.Transaction.InputInvalid", words)

    def _begin(self, member: str, wrong: list[str]) -> None:
        self._expect(self._has_hints, "without hints somebody would be asked for a password")
        self._expect(not self._is_used, "a transaction is used once")
        self._expect(not wrong, f"no names: {wrong}")
        self._is_used = True
        self._script.calls.append(member)

    def _report(self, names: set[str]) -> None:
        for name in sorted(names):
            if name in self._script.installed:
                self.Package(1, f"{name};{self._script.installed[name]};all;manual:stable", "")
            if self._script.available.get(name, "") not in ("", self._script.installed.get(name, "")):
                self.Package(2, f"{name};{self._script.available[name]};all;stable", "")

    def _change(self, member: str, flags: int, identifiers: list[str], source: dict[str, str], info: int) -> None:
        parts = [each.split(";") for each in identifiers]
        self._begin(member, [";".join(each) for each in parts if source.get(each[0]) != each[1]])
        self._expect(flags in (_TRUSTED, _TRUSTED | _SIMULATE), f"flags {flags}")
        for identifier in identifiers:
            self.Package(info, identifier, "")
        if flags == _TRUSTED and member not in {*self._script.fails, *self._script.ends, *self._script.stalls}:
            for name, version, *_ in parts:
                if info == 13:
                    del self._script.installed[name]
                else:
                    self._script.installed[name] = version
        self._end(member, simulates=bool(flags & _SIMULATE))

    def _end(self, member: str, *, simulates: bool = False) -> None:
        """Ends after the method was answered."""
        asyncio.get_running_loop().call_soon(self._report_end, member, simulates)

    def _report_end(self, member: str, simulates: bool) -> None:
        script = self._script
        if simulates:
            self.Finished(1, 5)
        elif member in script.stalls:
            return
        elif member in script.drops:
            self.Destroy()
        elif member in script.fails:
            self.ErrorCode(4, script.fails[member])
            self.Finished(2, 5)
        else:
            self.Finished(script.ends.get(member, 1), 5)
