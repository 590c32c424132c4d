"""Open vSwitch: bridges and ports over OVSDB (RFC 7047), flows over OpenFlow 1.3. No program is started."""

from __future__ import annotations

from toolcaddie.tools.host.ovs.flows import parsed_selection
from toolcaddie.tools.host.ovs.group import ovs
from toolcaddie.tools.host.ovs.plugin import openflow
from toolcaddie.tools.host.ovs.settings import OvsSettings

__all__ = ["OvsSettings", "openflow", "ovs", "parsed_selection"]
