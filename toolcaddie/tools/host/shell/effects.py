"""The effects of a command on the services, networks and switches of a machine: those of the typed tools that do the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from toolcaddie.tools.host.shell.arguments import CommandEffects
from toolcaddie.tools.host.shell.filters import nft
from toolcaddie.tools.host.shell.links import ip
from toolcaddie.tools.host.shell.switches import ovs_ofctl, ovs_vsctl
from toolcaddie.tools.host.shell.units import systemctl

_READERS: Mapping[str, Callable[[Sequence[str]], CommandEffects | None]] = {
    "systemctl": systemctl,
    "ovs-vsctl": ovs_vsctl,
    "ovs-ofctl": ovs_ofctl,
    "ip": ip,
    "nft": nft,
}
_OTHERS = frozenset(
    (
        *("busctl", "dbus-send", "gdbus", "service", "telinit", "init"),
        *("hostnamectl", "localectl", "timedatectl", "loginctl", "sysctl"),
        *("ifconfig", "route", "brctl", "bridge", "tc", "networkctl", "nmcli", "netplan", "ethtool", "iw", "wg"),
        *("iptables", "ip6tables", "ebtables", "arptables", "ufw", "firewall-cmd"),
        *("ovs-appctl", "ovs-dpctl", "ovsdb-client"),
        *("useradd", "usermod", "userdel", "groupadd", "groupmod", "groupdel", "gpasswd", "passwd", "chpasswd"),
        *("adduser", "deluser", "mount", "umount"),
        *("apt", "apt-get", "dpkg", "dnf", "yum", "rpm", "pkcon", "snap", "lxc", "incus", "lxd"),
    )
)
"""Programs that change the same things as the tools of this machine, and whose arguments are not read here."""


def command_effects(program: str, arguments: Sequence[str], *, only_reads: bool) -> CommandEffects | None:
    """Returns the effects of a program with these arguments; None: it is none of those that change such things. `only_reads`: it
    is known to only read, by the lists of commands."""
    reader = _READERS.get(program)
    if reader is not None:
        found = reader(arguments)
        return unreadable(program, arguments) if found is None else found
    if program in _OTHERS and not only_reads:
        return unreadable(program, arguments)
    return None


def unreadable(program: str, arguments: Sequence[str]) -> CommandEffects:
    """Returns the effects of a command whose arguments cannot be read."""
    text = " ".join([program, *arguments])[:80]
    return CommandEffects(question=f"it cannot be read what {text!r} changes")
