"""The tools of the group `ovs`, as methods, and the judgement of their calls."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.errors import HostError, RequestError
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.ovs.bridges import Bridges
from toolcaddie.tools.host.ovs.flows import Flow, Selection, parsed_flow, parsed_selection
from toolcaddie.tools.host.ovs.rows import LOCAL_PORT, Interface
from toolcaddie.tools.host.ovs.settings import port_name

BridgeName = Annotated[str, Field(min_length=1, max_length=64)]
PortName = Annotated[str, Field(min_length=1, max_length=64)]
FlowText = Annotated[
    str,
    Field(
        min_length=1, max_length=4096, description="Such as priority=100,tcp,nw_dst=10.0.0.1,tp_dst=80,actions=output:2"
    ),
]
MatchText = Annotated[
    str,
    Field(max_length=4096, description="Such as tcp,tp_dst=80; with priority=N, exactly that flow. Empty: all flows"),
]

MOST_FLOWS = 500
"""Flows that one call shows."""
_LONGEST = 2000
"""Characters of a flow that are shown."""
_PREVIEWED = 50
"""Flows that a person who is asked about their removal sees."""
READING = ("ovs_list_bridges", "ovs_show_bridge", "ovs_list_ports", "ovs_dump_flows")
"""The tools that change nothing."""


class OvsTools:
    """The functions of the tools."""

    def __init__(self, bridges: Bridges) -> None:
        self._bridges = bridges

    async def ovs_list_bridges(self) -> list[JsonObject]:
        """List the bridges of Open vSwitch."""
        return [{"name": bridge.name, "ports": len(bridge.ports)} for bridge in await self._bridges.all()]

    async def ovs_show_bridge(self, bridge: BridgeName) -> JsonObject:
        """Show a bridge with its ports and their interfaces."""
        return (await self._bridges.get(bridge)).shown()

    async def ovs_list_ports(self, bridge: BridgeName) -> list[JsonObject]:
        """List the ports of a bridge, with the numbers that flows use."""
        ports = (await self._bridges.get(bridge)).ports
        return [
            {"port": port.name, "number": _number(interface), "interface": interface.name}
            for port in ports
            for interface in port.interfaces
        ]

    async def ovs_dump_flows(self, bridge: BridgeName) -> JsonObject:
        """Show the flows of a bridge, with their counters."""
        flows = await (await self._bridges.switch(bridge)).flows()
        flows.sort(key=lambda each: (each.flow.table, -each.flow.priority, each.flow.key))
        shown = [
            {"flow": _shown(each.flow), "packets": each.packets, "bytes": each.bytes, "seconds": each.seconds}
            for each in flows[:MOST_FLOWS]
        ]
        return {"flows": shown, "not_shown": len(flows) - len(shown)} if len(flows) > len(shown) else {"flows": shown}

    async def ovs_add_bridge(self, bridge: BridgeName) -> JsonObject:
        """Make a bridge."""
        return {"added": (await self._bridges.add(bridge)).shown()}

    async def ovs_del_bridge(self, bridge: BridgeName) -> JsonObject:
        """Remove a bridge with all its ports and flows."""
        return {"removed": (await self._bridges.remove(bridge)).shown()}

    async def ovs_add_port(self, bridge: BridgeName, port: PortName) -> JsonObject:
        """Add a network device of the machine to a bridge as a port."""
        return {"added": (await self._bridges.add_port(bridge, port_name(port))).shown()}

    async def ovs_del_port(self, bridge: BridgeName, port: PortName) -> JsonObject:
        """Remove a port from a bridge."""
        return {"removed": (await self._bridges.remove_port(bridge, port_name(port))).shown()}

    async def ovs_add_flow(self, bridge: BridgeName, flow: FlowText) -> JsonObject:
        """Add a flow to a bridge, or replace the one with the same table, priority and match."""
        wanted = parsed_flow(flow)
        switch = await self._bridges.switch(bridge)
        await switch.change(added=[wanted])
        if wanted not in [each.flow for each in await switch.flows(wanted.selection)]:
            raise HostError(f"bridge {bridge}: the switch has accepted the flow, but does not show it: {wanted}")
        return {"added": str(wanted)}

    async def ovs_del_flows(self, bridge: BridgeName, match_str: MatchText = "") -> JsonObject:
        """Remove the flows of a bridge that fit a match."""
        selection = parsed_selection(match_str)
        switch = await self._bridges.switch(bridge)
        removed = [each.flow for each in await switch.flows(selection)]
        await switch.change(removed=[selection])
        present = [each.flow for each in await switch.flows(selection)]
        if left := [flow for flow in removed if flow in present]:
            raise HostError(
                f"bridge {bridge}: {len(left)} of {len(removed)} flows are still there, or somebody has made them again, "
                f"such as {_shown(left[0])}"
            )
        return {"removed": len(removed), "flows": [_shown(flow) for flow in removed[:MOST_FLOWS]]}

    async def assess(self, name: str, arguments: JsonObject, context: RunContext) -> Assessment:
        """Returns the effects of a change, and what a person who is asked about it sees."""
        if name in READING:
            return NOTHING
        try:
            bridge = self._bridges.settings.bridge(arguments["bridge"])
            match name:
                case "ovs_add_bridge":
                    return Assessment(effects=(f"ovs.add-bridge {bridge}",))
                case "ovs_del_bridge":
                    return await self._removal(bridge)
                case "ovs_add_port" | "ovs_del_port":
                    verb = name.removeprefix("ovs_").replace("_", "-")
                    return Assessment(effects=(f"ovs.{verb} {bridge}/{port_name(arguments['port'])}",))
                case "ovs_add_flow":
                    return Assessment(preview=str(parsed_flow(arguments["flow"])), effects=(f"ovs.add-flow {bridge}",))
                case _:
                    return await self._flow_removal(bridge, parsed_selection(arguments.get("match_str", "")))
        except RequestError as error:
            return Assessment(refusal=str(error))

    async def _removal(self, bridge: str) -> Assessment:
        """Returns the judgement of the removal of a bridge, whose effects are also those of the removal of all that it has."""
        question = f"removes {bridge} with all its ports and flows"
        effects = (f"ovs.del-bridge {bridge}", f"ovs.del-flows {bridge}", f"ovs.del-flow {bridge}")
        try:
            ports = [port.name for port in (await self._bridges.get(bridge)).ports]
        except HostError as error:
            return Assessment(preview=str(error), question=question, effects=effects)
        return Assessment(
            preview=f"Removes the ports {', '.join(ports)}",
            question=question,
            effects=(*effects, *(f"ovs.del-port {bridge}/{port}" for port in ports)),
        )

    async def _flow_removal(self, bridge: str, selection: Selection) -> Assessment:
        question = ""
        effects: tuple[str, ...] = (f"ovs.del-flow {bridge}",)
        if selection.is_wide:
            question = f"removes all flows of {bridge}{f' with {selection}' if str(selection) else ''}"
            effects = (f"ovs.del-flows {bridge}", *effects)
        try:
            flows = [each.flow for each in await (await self._bridges.switch(bridge)).flows(selection)]
        except HostError as error:
            return Assessment(preview=str(error), question=question, effects=effects)
        lines = sorted(map(_shown, flows))
        more = [f"and {len(lines) - _PREVIEWED} more"] if len(lines) > _PREVIEWED else []
        preview = "\n".join([f"Flows that it removes: {len(lines)}", *lines[:_PREVIEWED], *more])
        return Assessment(preview=preview, question=question, effects=effects)


def _number(interface: Interface) -> int | str | None:
    return "LOCAL" if interface.number == LOCAL_PORT else interface.number


def _shown(flow: Flow) -> str:
    text = str(flow)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
