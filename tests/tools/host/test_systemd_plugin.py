"""The state plugin `systemd`, against a real systemd."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.tools.host.plugin_properties import changing, check_properties
from tests.tools.host.systemd_rig import RealSystemd, real_systemd
from toolcaddie.core.errors import ConfigError, HostError, RequestError
from toolcaddie.core.states import Change
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.states.changing import Changing
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing.part_contracts import STATE, StateSubject
from toolcaddie.tools.host import host
from toolcaddie.tools.host.systemd import SystemdSettings
from toolcaddie.tools.host.systemd.plugin import systemd

pytestmark = [pytest.mark.anyio, pytest.mark.proves("R004-29", "R004-31")]

SERVICES = ("web-one.service", "web-two.service", "web-three.service")
UNITS = ("web-*", "tick.timer")


@pytest.fixture(scope="module")
def world() -> Iterator[RealSystemd]:
    with real_systemd() as world:
        for name in SERVICES:
            world.service(name, "/bin/sleep 1000")
        world.service("web-fixed.service", "/bin/sleep 1000", install=False)
        world.service("web-once.service", "/bin/true", service="Type=oneshot")
        world.service("web-fails.service", "/bin/false", service="Type=oneshot")
        world.service("web-many@.service", "/bin/sleep 1000")
        world.service("secret.service", "/bin/sleep 1000")
        world.service("tick.service", "/bin/true")
        world.write("tick.timer", "[Timer]\nOnCalendar=2099-01-01\n[Install]\nWantedBy=default.target\n")
        (world.units / "web-masked.service").symlink_to("/dev/null")
        (world.units / "web-nick.service").symlink_to("secret.service")
        yield world


@pytest.fixture
async def part(world: RealSystemd) -> AsyncIterator[Changing]:
    part = changing(systemd(units=UNITS, bus=world.address))
    await part.open()
    yield part
    await part.close()


async def test_the_state_has_the_units_of_the_list_and_no_others(world: RealSystemd, part: Changing) -> None:
    world.control("start", "secret", "web-many@1.service")
    state = await part.query()
    world.control("stop", "secret", "web-many@1.service")
    rest = {"active": False, "enabled": False}
    assert state == {
        **dict.fromkeys([*SERVICES, "tick.timer"], rest),
        "web-fails.service": rest,
        "web-once.service": rest,
        "web-fixed.service": {"active": False, "unit_file": "static"},
        "web-masked.service": {"active": False, "unit_file": "masked"},
        "web-many@1.service": {"active": True, "enabled": False},
    }


async def test_transient_units_are_no_part_of_the_state(world: RealSystemd, part: Changing) -> None:
    world.run_transient("web-passing.service")
    assert world.control("is-active", "web-passing.service").stdout == "active\n"
    assert "web-passing.service" not in await part.query()
    world.control("stop", "web-passing.service")


async def test_without_a_list_the_state_is_empty(world: RealSystemd) -> None:
    part = changing(systemd(bus=world.address))
    assert await part.query() == {}
    with pytest.raises(RequestError, match=r"the operator allows units with source 'host': plugin\.systemd\.units"):
        await part.difference({"web-one.service": {"active": True}})
    await part.close()


@pytest.mark.parametrize(
    ("target", "desired", "message"),
    [
        ("secret.service", {"active": True}, "secret.service may not be changed"),
        ("web-nick.service", {"active": True}, "there is no such unit"),
        ("web-one", {"active": True}, "write the full name, web-one.service"),
        ("../web-one.service", {"active": True}, "is no name of a unit"),
        ("web-one.service\n", {"active": True}, "is no name of a unit"),
        ("web-absent.service", {"active": True}, "there is no such unit"),
        ("web-one.service", None, "a unit is not deleted"),
        ("web-fixed.service", {"enabled": True}, "can be neither enabled nor disabled: its unit file is static"),
        ("web-fixed.service", {"unit_file": "enabled"}, "'unit_file' cannot be set to 'enabled'"),
        ("web-one.service", {"unit_file": "static"}, "'unit_file' cannot be set to 'static'"),
        ("web-one.service", {"active": "yes"}, "'active' cannot be set to 'yes'"),
        ("web-one.service", {"mode": True}, "'mode' cannot be set to 'True'"),
    ],
)
async def test_what_is_not_allowed_is_refused_by_name(
    part: Changing, target: str, desired: dict[str, Any] | None, message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        await part.difference({target: desired})


async def test_a_change_does_what_it_says(world: RealSystemd, part: Changing) -> None:
    diff = await part.difference({"web-one.service": {"active": True, "enabled": True}})
    applied = await part.apply(diff)
    assert world.control("is-active", "web-one").stdout == "active\n"
    assert (world.units / "default.target.wants/web-one.service").is_symlink()
    assert applied.undo is not None
    await part.apply(applied.undo)
    assert world.control("is-active", "web-one").stdout == "inactive\n"
    assert not (world.units / "default.target.wants/web-one.service").is_symlink()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("web-fails.service", "start of web-fails.service failed.*exit status 1.*Nothing is changed"),
        ("web-once.service", "is not active afterwards.*Nothing is changed"),
        ("web-masked.service", "it is masked.*Nothing is changed"),
    ],
)
async def test_a_change_that_fails_is_undone(world: RealSystemd, part: Changing, name: str, message: str) -> None:
    first = await part.query()
    diff = await part.difference({name: {"active": True}, "web-one.service": {"active": True, "enabled": True}})
    with pytest.raises(HostError, match=message):
        await part.apply(diff)
    assert await part.query() == first
    assert world.control("is-active", "web-one").stdout == "inactive\n"


async def test_the_effects_are_those_of_the_typed_tools() -> None:
    plugin = systemd(units=UNITS)
    effects = {
        (before, after): plugin.effects(
            Change(
                action="modify",
                target="web-one.service",
                before={"active": before[0], "enabled": before[1]},
                after={"active": after[0], "enabled": after[1]},
            )
        )
        for before, after in itertools.product([(False, False), (True, True)], repeat=2)
    }
    assert effects == {
        ((False, False), (False, False)): (),
        ((False, False), (True, True)): ("systemd.start web-one.service", "systemd.enable web-one.service"),
        ((True, True), (False, False)): ("systemd.stop web-one.service", "systemd.disable web-one.service"),
        ((True, True), (True, True)): (),
    }


async def test_the_plugin_has_the_units_of_the_group_unless_it_names_its_own(world: RealSystemd) -> None:
    registry = Registry()
    registry.add("state", "systemd", systemd)
    group = SystemdSettings(units=("tick.timer",), bus=world.address)
    own: dict[str, dict[str, Any]]
    for own, names in (({}, ["tick.timer"]), ({"systemd": {"units": ["web-one"]}}, ["web-one.service"])):
        source = host(
            groups=("plugins",),
            plugins=("systemd",),
            plugin=own,
            systemd=group,
            parts=Parts(store=MemoryStore()),
            registry=registry,
        )
        (tools,) = [made.source for made in source.groups]
        query = next(tool for tool in tools.tools() if tool.name == "plugin_systemd_query")
        result = await tools.call_tool(query, {}, None)  # type: ignore[arg-type]
        assert sorted(result.structured["state"]) == names  # type: ignore[index]
        await tools.close()  # type: ignore[attr-defined]


async def test_bad_settings_are_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match=r"plugin\.systemd\.units: 'a b' is no name"):
        systemd(units=("a b",))


@pytest.mark.parametrize("check", STATE, ids=str)
async def test_the_plugin_keeps_the_contract(world: RealSystemd, check: Any) -> None:
    desired = {"web-one.service": {"active": True, "enabled": True}, "tick.timer": {"enabled": True}}
    await check(StateSubject(name="systemd", make=lambda: systemd(units=UNITS, bus=world.address), desired=desired))


async def test_a_person_is_always_asked_before_the_whole_machine_stops() -> None:
    change = Change(action="modify", target="reboot.target", before={"active": False}, after={"active": True})
    assert systemd(units=("*",)).question(change) == "start of reboot.target stops or restarts the whole machine"


def test_any_desired_state_is_reached_and_undone(world: RealSystemd) -> None:
    attributes = st.fixed_dictionaries({}, optional={"active": st.booleans(), "enabled": st.booleans()})
    fixed = st.fixed_dictionaries({}, optional={"active": st.booleans()})
    desired = st.fixed_dictionaries(
        {},
        optional={**dict.fromkeys([*SERVICES, "tick.timer"], attributes), "web-fixed.service": fixed},
    )
    check_properties(lambda: systemd(units=UNITS, bus=world.address), desired)
