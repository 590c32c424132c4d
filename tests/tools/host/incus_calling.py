"""The plugin `lxc` with the settings of its tests, whose socket is in a folder of the test."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from tests.tools.host.hosting_state import StateHost, state_host
from tests.tools.host.incus_rules import FINGERPRINT
from toolcaddie.tools.host.states.lxc import LxcPlugin, lxc

IMAGES = {"debian/12": "https://images.example.org", FINGERPRINT: ""}
SOCKET = "unix.socket"


def made(folder: Path, **settings: Any) -> LxcPlugin:
    return lxc(images=IMAGES, profiles=("default", "web"), socket=str(folder / SOCKET), **settings)


def hosted(folder: Path, **settings: Any) -> AbstractAsyncContextManager[StateHost]:
    given = {"images": IMAGES, "profiles": ["default", "web"], "socket": str(folder / SOCKET)}
    return state_host("lxc", lxc, {**given, **settings})
