"""The state plugin `lxc`: containers of Incus or LXD, over its REST interface on a socket of this machine."""

from __future__ import annotations

from toolcaddie.tools.host.states.lxc.plugin import LxcPlugin, lxc

__all__ = ["LxcPlugin", "lxc"]
