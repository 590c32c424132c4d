"""The plugin `packagekit` with apt: real apt and dpkg, over a root and a repository of the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.tools.host.hosting_state import StateHost, state_host
from tests.tools.host.package_root import APT, PackageRoot, made, package_host
from tests.tools.host.plugin_properties import check_properties
from tests.tools.host.shelf import until
from toolcaddie.core.states import Change
from toolcaddie.guards.processes import commands_ended
from toolcaddie.testing.part_contracts import STATE, StateSubject, check_all
from toolcaddie.tools.host.states.packagekit import packagekit

pytestmark = [pytest.mark.anyio, APT]


@pytest.fixture
def root(tmp_path: Path) -> PackageRoot:
    return PackageRoot.stocked(tmp_path)


@pytest.fixture
async def host(root: PackageRoot) -> AsyncIterator[StateHost]:
    async with package_host(root) as host:
        yield host


async def test_it_keeps_the_contract_of_state_plugins(root: PackageRoot) -> None:
    root.install("beta")
    desired = {"alpha": {"installed": True}, "beta": {"installed": False}}
    await check_all(StateSubject(name="apt", make=lambda: made(root), desired=desired), STATE)


@pytest.mark.timeout(3600)
def test_random_states_are_reached_and_left_again(root: PackageRoot) -> None:
    names = st.sampled_from(["alpha", "gamma", "nothing", "theta"])
    wishes = st.one_of(st.none(), st.fixed_dictionaries({"installed": st.booleans()}))
    root.add("theta", "0.1-2")
    root.publish()
    known = st.dictionaries(names, wishes, min_size=1).map(_without_unknown_wishes)
    check_properties(lambda: made(root, "alpha", "gamma", "thet*", "nothing"), known)


def _without_unknown_wishes(states: dict[str, Any]) -> dict[str, Any]:
    return {name: None if name == "nothing" else value for name, value in states.items()}


@pytest.mark.proves("R004-29", "R004-31")
async def test_a_package_is_installed_with_what_it_needs_and_removed_again(host: StateHost, root: PackageRoot) -> None:
    assert (await host.state())["beta"] == {"installed": False, "version": "", "candidate": "2.0"}
    result = await host.apply({"beta": {"installed": True}})
    assert result.success, result.text
    assert root.versions() == {"beta": "2.0", "gamma": "3.0"}
    undone = await host.call("apply", diff=result.structured["undo"], dry_run=False)
    assert undone.success, undone.text
    assert root.versions() == {"gamma": "3.0"}


async def test_the_state_has_only_what_the_settings_name(host: StateHost, root: PackageRoot) -> None:
    root.install("gamma")
    root.install_file("homemade")
    assert set(await host.state()) == {"alpha", "beta", "beta-tools", "base-os", "homemade", "anti-alpha"}


async def test_the_newest_version_is_installed_whatever_its_signs(host: StateHost, root: PackageRoot) -> None:
    result = await host.apply({"alpha": {"installed": True}})
    assert result.success, result.text
    assert root.versions() == {"alpha": "1:2.0~rc1+b1"}


async def test_packages_that_exclude_each_other_are_exchanged_in_one_step(host: StateHost, root: PackageRoot) -> None:
    root.install("alpha")
    result = await host.apply({"anti-alpha": {"installed": True}, "alpha": {"installed": False}})
    assert result.success, result.text
    assert root.versions() == {"anti-alpha": "1.0"}


@pytest.mark.parametrize(
    ("installed", "desired", "words"),
    [
        (("alpha",), {"anti-alpha": {"installed": True}}, "would also remove alpha"),
        (("alpha", "needs-alpha"), {"alpha": {"installed": False}}, "would also remove needs-alpha"),
        ((), {"beta-tools": {"installed": True}}, "would also install beta; name it"),
        (("base-os",), {"base-os": {"installed": False}}, "base-os is a required part of the system"),
    ],
)
async def test_a_change_that_would_reach_further_is_not_made(
    host: StateHost, root: PackageRoot, installed: tuple[str, ...], desired: Any, words: str
) -> None:
    if installed:
        root.install(*installed)
    before = root.versions()
    result = await host.apply(desired)
    assert result.error == "failed"
    assert words in result.text
    assert root.versions() == before


async def test_a_dependency_may_not_bring_another_package_to_another_version(
    host: StateHost, root: PackageRoot
) -> None:
    root.install("gamma")
    root.add("gamma", "4.0")
    root.add("anti-alpha", "1.1", Depends="gamma (>= 4)")
    root.publish()
    result = await host.apply({"anti-alpha": {"installed": True}})
    assert "would also bring gamma to another version" in result.text
    assert root.versions() == {"gamma": "3.0"}


async def test_the_words_of_apt_are_in_the_failure(host: StateHost, root: PackageRoot) -> None:
    diff = await host.diff({"alpha": {"installed": True}})
    for path in root.repository.glob("alpha*"):
        path.unlink()
    result = await host.call("apply", diff=diff, dry_run=False)
    assert result.error == "failed"
    assert "apt-get failed" in result.text
    assert root.versions() == {}


async def test_a_cancelled_change_leaves_no_half_installed_package(root: PackageRoot) -> None:
    plugin = made(root)
    after = plugin.planned("alpha", {"installed": True}, (await plugin.query())["alpha"])
    before = (await plugin.query())["alpha"]
    log = root.path / "var/log/apt/history.log"
    with commands_ended():  # as around the call of a tool
        task = asyncio.ensure_future(
            plugin.apply([Change(action="modify", target="alpha", before=before, after=after)])
        )
        await until(lambda: log.exists() or task.done())
        task.cancel()
    await asyncio.wait({task})
    assert (await plugin.query())["alpha"] == after
    root.install("beta")  # apt refuses everything after an interrupted installation


async def test_a_machine_without_a_package_manager_says_so_in_every_step(tmp_path: Path) -> None:
    settings = {"manager": "packagekit", "bus": f"unix:path={tmp_path}/bus", "packages": ["alpha"]}
    async with state_host("packagekit", packagekit, settings) as host:
        for result in (
            await host.call("query"),
            await host.call("diff", desired_state={"alpha": {"installed": True}}),
            await host.call("apply", diff={"plugin": "packagekit", "base": "x"}, dry_run=False),
        ):
            assert result.error == "failed"
            assert "no package manager that can be used: there is no D-Bus at" in result.text
