"""The plugin `packagekit` with PackageKit: the real daemon over a root of the test, and a scripted one for its failures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.tools.host.hosting_state import state_host
from tests.tools.host.package_bus import BUS, PACKAGEKIT, packagekitd, private_bus, serving
from tests.tools.host.package_root import APT, PackageRoot
from tests.tools.host.plugin_properties import check_properties
from tests.tools.host.scripted_packagekit import Script
from toolcaddie.core.states import Change
from toolcaddie.testing.part_contracts import STATE, StateSubject, check_all
from toolcaddie.tools.host.states.packagekit import PackagesPlugin, packagekit
from toolcaddie.tools.host.states.packagekit.apt import Apt
from toolcaddie.tools.host.states.packagekit.packagekitd import PackageKit

pytestmark = [pytest.mark.anyio, BUS]

real = pytest.mark.usefixtures("daemon")


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[str]:
    with private_bus(tmp_path) as bus:
        yield bus


@pytest.fixture
def root(tmp_path: Path) -> PackageRoot:
    return PackageRoot.stocked(tmp_path / "system")


@pytest.fixture
def daemon(tmp_path: Path, bus: str, root: PackageRoot) -> Iterator[None]:
    with packagekitd(tmp_path, bus, root):
        yield


@pytest.fixture
def script(bus: str) -> Iterator[Script]:
    script = Script(available={"alpha": "1.0", "beta": "2.0"})
    with serving(bus, script.export):
        yield script


PATTERNS = ("alpha", "beta*", "base-os", "anti-alpha")


def made(bus: str, **settings: Any) -> PackagesPlugin:
    return packagekit(packages=PATTERNS, bus=bus, manager="packagekit", **settings)


def hosted(bus: str, **settings: Any) -> Any:
    return state_host(
        "packagekit", packagekit, {"packages": list(PATTERNS), "bus": bus, "manager": "packagekit", **settings}
    )


def with_both(bus: str, root: PackageRoot) -> PackagesPlugin:
    """Returns the plugin of the setting "auto", but with a bus and a root of the test."""
    daemon = PackageKit(bus, timeout=30.0, change_timeout=100.0)
    return PackagesPlugin(PATTERNS, [daemon, Apt(str(root.path), timeout=30.0, change_timeout=100.0)])


@APT
async def test_without_packagekit_apt_is_used_and_said_to_be(bus: str, root: PackageRoot) -> None:
    plugin = with_both(bus, root)
    (used,) = await plugin.back_ends()
    assert used.present
    assert used.detail.startswith("apt ")
    assert "packages are read and changed with it" in used.detail
    assert (await plugin.query())["alpha"]["candidate"] == "1:2.0~rc1+b1"
    await plugin.close()


@APT
@PACKAGEKIT
class TestTheRealDaemon:
    """PackageKit with its back end for apt."""

    @real
    async def test_it_keeps_the_contract_of_state_plugins(self, bus: str, root: PackageRoot) -> None:
        root.install("beta")
        desired = {"alpha": {"installed": True}, "beta": {"installed": False}}
        await check_all(StateSubject(name="packagekit", make=lambda: made(bus), desired=desired), STATE)

    @real
    @pytest.mark.timeout(3600)
    def test_random_states_are_reached_and_left_again(self, bus: str) -> None:
        names = st.sampled_from(["alpha", "gamma"])
        wishes = st.one_of(st.none(), st.fixed_dictionaries({"installed": st.booleans()}))
        plugin = lambda: packagekit(packages=("alpha", "gamm*"), bus=bus, manager="packagekit")  # noqa: E731
        check_properties(plugin, st.dictionaries(names, wishes, min_size=1))

    @real
    @pytest.mark.proves("R004-29", "R004-31")
    async def test_a_package_is_installed_with_what_it_needs_and_removed_again(
        self, bus: str, root: PackageRoot
    ) -> None:
        async with hosted(bus) as host:
            assert (await host.state())["beta"] == {"installed": False, "version": "", "candidate": "2.0"}
            result = await host.apply({"beta": {"installed": True}, "alpha": {"installed": True}})
            assert result.success, result.text
            assert root.versions() == {"alpha": "1:2.0~rc1+b1", "beta": "2.0", "gamma": "3.0"}
            undone = await host.call("apply", diff=result.structured["undo"], dry_run=False)
            assert undone.success, undone.text
            assert root.versions() == {"gamma": "3.0"}

    @real
    @pytest.mark.parametrize(
        ("installed", "desired", "words"),
        [
            (("alpha",), {"anti-alpha": {"installed": True}}, "would also remove alpha"),
            (("alpha", "needs-alpha"), {"alpha": {"installed": False}}, "would also remove needs-alpha"),
            ((), {"beta-tools": {"installed": True}}, "would also install beta; name it"),
            (("base-os",), {"base-os": {"installed": False}}, "essential"),
        ],
    )
    async def test_a_change_that_would_reach_further_is_not_made(
        self, bus: str, root: PackageRoot, installed: tuple[str, ...], desired: Any, words: str
    ) -> None:
        if installed:
            root.install(*installed)
        before = root.versions()
        async with hosted(bus) as host:
            result = await host.apply(desired)
        assert result.error == "failed"
        assert words in result.text
        assert root.versions() == before

    @real
    async def test_many_readers_at_once_get_their_own_answers(self, bus: str, root: PackageRoot) -> None:
        root.install("beta")
        plugin = made(bus)
        states = await asyncio.gather(*(plugin.query() for _ in range(20)))
        assert all(state == states[0] for state in states)
        assert states[0]["beta"]["installed"]
        await plugin.close()

    @real
    async def test_it_is_said_to_be_used_in_place_of_apt(self, bus: str, root: PackageRoot) -> None:
        plugin = with_both(bus, root)
        used, unused = await plugin.back_ends()
        assert used.present
        assert ", apt; packages are read and changed with it" in used.detail
        assert "not used, because PackageKit is" in unused.detail
        await plugin.close()


async def test_the_words_of_a_failure_are_in_the_result(bus: str, script: Script) -> None:
    script.fails["InstallPackages"] = "the mirror\nsays \x1b[31mno"
    async with hosted(bus) as host:
        result = await host.apply({"alpha": {"installed": True}})
    assert result.error == "failed"
    assert "the mirror says \\x1b[31mno (error 4)" in result.text
    assert not script.installed


@pytest.mark.parametrize(
    ("end", "words"), [(2, "it failed"), (3, "it was cancelled"), (4, "a key is needed"), (9, "ended with 9")]
)
async def test_an_end_that_is_no_success_is_none(bus: str, script: Script, end: int, words: str) -> None:
    script.ends["InstallPackages"] = end
    async with hosted(bus) as host:
        result = await host.apply({"alpha": {"installed": True}})
    assert result.error == "failed"
    assert words in result.text


async def test_a_transaction_that_stalls_is_given_up(bus: str, script: Script) -> None:
    script.stalls.add("InstallPackages")
    async with hosted(bus, change_timeout=0.3) as host:
        result = await host.apply({"alpha": {"installed": True}})
    assert "did not finish within 0.3 s" in result.text
    assert script.cancelled == 1


async def test_a_cancelled_change_cancels_its_transaction(bus: str, script: Script) -> None:
    script.stalls.add("InstallPackages")
    plugin = made(bus)
    before = (await plugin.query())["alpha"]
    after = plugin.planned("alpha", {"installed": True}, before)
    change = Change(action="modify", target="alpha", before=before, after=after)
    task = asyncio.ensure_future(plugin.apply([change]))
    async with asyncio.timeout(10):
        while script.calls.count("InstallPackages") < 2:  # noqa: ASYNC110  the service is in another thread
            await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert script.cancelled == 1
    await plugin.close()


async def test_a_transaction_that_vanishes_is_a_failure(bus: str, script: Script) -> None:
    script.drops.add("Resolve")
    async with hosted(bus) as host:
        assert "it dropped the transaction" in (await host.call("query")).text


async def test_names_that_are_none_are_not_shown(bus: str, script: Script) -> None:
    script.strange = ["alpha\n;1;all;x", "no identifier", "alpha;$(reboot);all;x", "gamma;1;all;x", ";;;"]
    async with hosted(bus) as host:
        assert set(await host.state()) == {"alpha", "beta"}


async def test_a_version_that_is_gone_meanwhile_is_not_exchanged_for_another(bus: str, script: Script) -> None:
    plugin = made(bus)
    before = (await plugin.query())["alpha"]
    after = plugin.planned("alpha", {"installed": True}, before)
    script.available["alpha"] = "1.1"
    with pytest.raises(Exception, match=r"alpha 1\.0 is not available any more"):
        await plugin.apply([Change(action="modify", target="alpha", before=before, after=after)])
    assert not script.installed
    await plugin.close()


async def test_a_hundred_readers_at_once_get_their_own_answers(bus: str, script: Script) -> None:
    script.installed["beta"] = "2.0"
    plugin = made(bus)
    states = await asyncio.gather(*(plugin.query() for _ in range(100)))
    assert all(state == states[0] for state in states)
    await plugin.close()
