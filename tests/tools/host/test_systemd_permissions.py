"""The units that the group `systemd` may change, and names that reach no unit, against a real systemd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.host.systemd_calling import Caller, calling, group_of, systemd_with_units
from tests.tools.host.systemd_rig import RealSystemd
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.assessment import Assessment

pytestmark = [pytest.mark.anyio, pytest.mark.proves("R004-27")]


@pytest.fixture(scope="module")
def world() -> Iterator[RealSystemd]:
    with systemd_with_units() as world:
        yield world


@pytest.fixture
async def call(world: RealSystemd) -> AsyncIterator[Caller]:
    async with calling(world) as caller:
        yield caller


@pytest.mark.parametrize("verb", ["start_unit", "stop_unit", "restart_unit", "enable_unit", "disable_unit"])
async def test_only_units_on_the_list_are_changed(world: RealSystemd, call: Caller, verb: str) -> None:
    assert "other.service may not be changed" in await call.error(verb, "other.service")
    assert world.control("is-active", "other").stdout == "inactive\n"


@pytest.mark.parametrize("verb", ["start_unit", "enable_unit", "reload_daemon"])
async def test_without_a_list_nothing_is_changed_and_the_setting_is_named(world: RealSystemd, verb: str) -> None:
    async with calling(world, units=()) as call:
        error = await call.error(verb, None if verb == "reload_daemon" else "sleeper")
    assert "the operator allows units with source 'host': systemd.units" in error


async def test_an_alias_is_no_way_to_a_unit_that_is_not_on_the_list(world: RealSystemd, call: Caller) -> None:
    assert "other.service may not be changed" in await call.error("start_unit", "nick.service")
    assert world.control("is-active", "other").stdout == "inactive\n"


async def judged(world: RealSystemd, verb: str, *units: str, **arguments: Any) -> Assessment:
    """Returns the judgement of a call if these units may be changed."""
    source: Any = group_of(world.address, units=units).source
    tool = next(tool for tool in source.tools() if tool.name == f"systemd_{verb}")
    try:
        return await source.assess(tool, arguments, None)  # type: ignore[no-any-return]
    finally:
        await source.close()


async def test_a_change_has_the_effect_of_its_verb_and_unit(world: RealSystemd) -> None:
    for verb in ("start", "stop", "restart", "enable", "disable"):
        judgement = await judged(world, f"{verb}_unit", "sleeper", unit="sleeper")
        assert (judgement.effects, judgement.question) == ((f"systemd.{verb} sleeper.service",), "")
    assert (await judged(world, "reload_daemon", "sleeper")).effects == ("systemd.daemon-reload *",)


async def test_the_effect_of_a_unit_with_an_alias_names_both(world: RealSystemd) -> None:
    for unit in ("nick", "other"):
        judgement = await judged(world, "stop_unit", "nick", "other", unit=unit)
        assert set(judgement.effects) == {"systemd.stop nick.service", "systemd.stop other.service"}


async def test_a_unit_that_is_not_on_the_list_is_refused_before_anybody_is_asked(world: RealSystemd) -> None:
    for unit in ("dbus", "nick"):
        assert "may not be changed" in (await judged(world, "stop_unit", "sleeper", "nick", unit=unit)).refusal


async def test_a_person_is_always_asked_before_the_whole_machine_stops(world: RealSystemd) -> None:
    for unit in ("poweroff.target", "reboot.target", "rescue.target", "suspend.target"):
        judgement = await judged(world, "start_unit", "*", unit=unit)
        assert judgement.question == f"start of {unit} stops or restarts the whole machine"


@pytest.mark.parametrize("name", ["other", "nick"])
async def test_a_rule_about_an_effect_holds_for_the_tool_its_alias_and_the_plugin(
    world: RealSystemd, name: str
) -> None:
    world.control("start", "other")
    policy = CedarPolicy(deny_effects=[f"systemd.stop {name}.service"])
    async with calling(world, units=("nick", "other"), policy=policy) as call:
        diff = await call.runtime.call("plugin_systemd_diff", {"desired_state": {"other.service": {"active": False}}})
        denied = [
            await call("stop_unit", "other"),
            await call("stop_unit", "nick"),
            await call.runtime.call("plugin_systemd_apply", {"diff": diff.structured, "dry_run": False}),
        ]
    assert [result.text for result in denied] == ["Not allowed: not allowed."] * 3  # and nobody is asked
    assert world.control("is-active", "other").stdout == "active\n"
    world.control("stop", "other")


HOSTILE = [
    *("", ".service", "-.service", "--force.service", "/etc/passwd", "../sleeper.service", "sleeper.service/.."),
    *(
        "@.service",
        "sleeper.service\n",
        "sleeper\nother.service",
        "sleeper.service\0",
        "sleeper other",
        "sleeper;reboot",
    ),
    *("$(reboot)", "sleeper.service other.service", "*", "s*.service", "sleeper.?ervice", "slee[p]er", "sl\xe9eper"),
    *("sleeper.service\u202e", "a" * 249 + ".service", "sleeper.exe/x", "sleeper.service,other.service", "sleeper%2fx"),
    *("sleeper.service\t", "'sleeper'", "\uff53leeper", "sleeper.service\r", " sleeper", "sleeper#", "a" * 1_000),
]


@pytest.mark.parametrize("unit", HOSTILE)
async def test_a_hostile_name_reaches_no_unit(world: RealSystemd, unit: str) -> None:
    async with calling(world, units=("*",)) as call:
        for verb in ("unit_status", "start_unit", "restart_unit", "enable_unit"):
            result = await call(verb, unit)
            assert result.error == "invalid_arguments", result.text
            assert "is no name of a unit" in result.text
    assert world.control("is-active", "sleeper").stdout == "inactive\n"


LETTERS = "abz09:_.\\\\-@"


def test_every_name_that_is_accepted_is_one_for_systemd_too(world: RealSystemd) -> None:
    texts = st.text(alphabet=LETTERS, min_size=1, max_size=12)
    suffixes = st.sampled_from(["", ".service", ".socket", ".timer", ".mount", ".slice"])
    with asyncio.Runner() as runner:
        opened = calling(world)
        call = runner.run(opened.__aenter__())

        @settings(max_examples=300, deadline=None, database=None)
        @given(text=texts, suffix=suffixes)
        def agree(text: str, suffix: str) -> None:
            result = runner.run(call("unit_status", text + suffix))
            assert "is not valid" not in result.text

        agree()
        runner.run(opened.__aexit__(None, None, None))
