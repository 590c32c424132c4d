"""Questions about what the tools of a host do, through the gateway and through MCP, with a real Open vSwitch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitResult

from tests.doors.host_callers import DOORS, FIVE, caller, executing, stored_host, value
from tests.doors.mcp.doors import mcp_door, says
from tests.doors.serving import gateway
from tests.doors.wire_clients import CLIENTS, client_of
from tests.tools.host.hosting import host_source
from tests.tools.host.ovs_rig import Machine, running_machine
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.control import Principal
from toolcaddie.parts import Parts
from toolcaddie.ports import Policy
from toolcaddie.sandbox.named import plain
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, say
from toolcaddie.tools.host import HostSource
from toolcaddie.util.replacing import replace

pytestmark = pytest.mark.anyio
doors = pytest.mark.parametrize("door", DOORS)
EVERYTHING = AllowAll()
policies = pytest.mark.parametrize(
    "policy", [EVERYTHING, CedarPolicy(never_ask=("ovs_*", "plugin_*", "shell_*"))], ids=["allow", "never_ask"]
)
ASKED = ("needs a person's approval", "waits for a person's approval")
BOSS = Principal(id="boss")
FLOWS = ("priority=7,tcp,tp_dst=80,actions=drop", "priority=8,tcp,tp_dst=22,actions=drop")


@pytest.fixture(scope="module")
def running() -> Iterator[Machine]:
    with running_machine() as machine:
        yield machine


@pytest.fixture
def ovs(running: Machine) -> Iterator[Machine]:
    """Yields a machine whose bridge has two flows."""
    running.vsctl("add-br", "br0")
    running.ofctl("del-flows", "br0")
    for flow in FLOWS:
        running.ofctl("add-flow", "br0", flow)
    yield running
    running.clear()


def switch_of(machine: Machine, **more: Any) -> HostSource:
    ovs = {"database": machine.database, "folder": str(machine.folder)}
    return stored_host(groups=["ovs", "plugins"], plugins=["openflow"], ovs=ovs, **more)


def flows_of(machine: Machine) -> int:
    return sum("priority=" in line for line in machine.ofctl("dump-flows", "br0"))


class Person:
    """Approves, and remembers the questions."""

    def __init__(self) -> None:
        self.questions: list[str] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.questions.append(params.message)
        return ElicitResult(action="accept", content={})


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("door", CLIENTS)
async def test_a_port_is_added_after_an_approval_and_bridges_are_listed_without_one(
    tmp_path: Path, ovs: Machine, door: str, stream: bool
) -> None:
    script = [executing("ovs_list_bridges"), executing("ovs_add_port", bridge="br0", port="p1"), say("It is there.")]
    async with (
        gateway(tmp_path, ScriptedProvider(script), sources=[switch_of(ovs)], preset="compact") as served,
        client_of(door, served.base_url) as client,
    ):
        history = client.user("add a port")
        pause = await client.ask(history, (), stream=stream)
        assert ASKED[0] in pause.text
        assert "ovs_add_port" in pause.text
        assert ovs.vsctl("list-ports", "br0") == []
        (approval,) = await served.runtime.approvals.list("default", status="open")
        assert approval.effects == ("ovs.add-port br0/p1",)
        await served.runtime.approvals.answer("default", approval.id, approved=True, by=BOSS)
        history += [{"role": "assistant", "content": pause.text}, *client.user("go on")]
        assert (await client.ask(history, (), stream=stream)).text == "It is there."
    assert ovs.vsctl("list-ports", "br0") == ["p1"]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_over_mcp_a_write_runs_after_the_approval_in_the_inbox(tmp_path: Path, ovs: Machine, mode: str) -> None:
    async with mcp_door(tmp_path, [switch_of(ovs)], settings=FIVE) as door, door.client(mode) as client:

        async def run(name: str, **arguments: Any) -> str:
            return await says(client, "execute_tool", tool_name=name, arguments=arguments)

        assert "br0" in await run("ovs_list_bridges")
        assert ASKED[1] in await run("ovs_add_port", bridge="br0", port="p1")
        assert ovs.vsctl("list-ports", "br0") == []
        (approval,) = await door.runtime.approvals.list("default", status="open")
        await door.runtime.approvals.answer("default", approval.id, approved=True, by=BOSS)
        await run("ovs_add_port", bridge="br0", port="p1")
    assert ovs.vsctl("list-ports", "br0") == ["p1"]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_over_mcp_the_person_at_the_client_reads_what_will_be_removed(
    tmp_path: Path, ovs: Machine, mode: str
) -> None:
    person, settings = Person(), replace(FIVE, approve="client")
    async with (
        mcp_door(tmp_path, [switch_of(ovs)], settings=settings, policy=AllowAll()) as door,
        door.client(mode, elicitation_callback=person) as client,
    ):
        await client.call_tool("execute_tool", {"tool_name": "ovs_del_flows", "arguments": {"bridge": "br0"}})
    assert len(person.questions) == 1
    assert "removes all flows of br0" in person.questions[0]
    assert flows_of(ovs) == 0


async def asked_about(
    folder: Path, door: str, host: HostSource, name: str, policy: Policy = EVERYTHING, **arguments: Any
) -> str:
    """Makes a call that must wait for a person even where the policy allows everything, and returns the answer."""
    if door == "mcp":
        async with caller(folder, door, host, policy) as call:
            return await call(name, **arguments)
    provider = ScriptedProvider([executing(name, **arguments)])
    async with gateway(folder, provider, sources=[host], preset="compact", policy=policy) as served:
        answer = await served.client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}])
        return answer.choices[0].message.content or ""


@doors
@policies
async def test_flows_that_a_match_names_are_removed_unasked_where_the_policy_allows_it(
    tmp_path: Path, ovs: Machine, door: str, policy: Policy
) -> None:
    async with caller(tmp_path, door, switch_of(ovs), policy) as call:
        await call("ovs_del_flows", bridge="br0", match_str="tcp,tp_dst=80")
    assert flows_of(ovs) == 1


@doors
@policies
@pytest.mark.parametrize("match", [{}, {"match_str": ""}], ids=["none", "empty"])
async def test_all_flows_are_removed_only_after_a_question_even_where_the_policy_allows_everything(
    tmp_path: Path, ovs: Machine, door: str, match: Any, policy: Policy
) -> None:
    text = await asked_about(tmp_path, door, switch_of(ovs), "ovs_del_flows", policy, bridge="br0", **match)
    assert any(words in text for words in ASKED), text
    assert flows_of(ovs) == 2


@doors
async def test_a_plugin_deletes_only_after_a_question_even_where_the_policy_allows_everything(
    tmp_path: Path, ovs: Machine, door: str
) -> None:
    host = switch_of(ovs)
    async with caller(tmp_path, door, host) as call:
        target = next(name for name in value(await call("plugin_openflow_query"))["state"] if "tp_dst=80" in name)
        diff = value(await call("plugin_openflow_diff", desired_state={target: None}))
        tried = value(await call("plugin_openflow_apply", diff=diff))
        assert (tried["dry_run"], flows_of(ovs)) == (True, 2)
    text = await asked_about(tmp_path, door, host, "plugin_openflow_apply", diff=diff, dry_run=False)
    assert any(words in text for words in ASKED), text
    assert flows_of(ovs) == 2


@doors
async def test_a_command_asks_as_the_tool_does_that_does_the_same(tmp_path: Path, door: str) -> None:
    shell = {"workdir": str(tmp_path / "work"), "programs": ["ovs-ofctl"]}
    host = host_source({"groups": ["shell"], "shell": shell}, Parts(store=MemoryStore(), sandbox=plain))
    text = await asked_about(tmp_path, door, host, "shell_execute", command="ovs-ofctl", args=["del-flows", "br0"])
    assert any(words in text for words in ASKED), text
