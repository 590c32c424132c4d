"""What the plugin `packagekit` refuses, with real apt and dpkg over a root of the test."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.host.hosting_state import StateHost, state_host
from tests.tools.host.package_root import APT, PackageRoot, made, package_host
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.registry import Registry
from toolcaddie.tools.host.states.packagekit import packagekit

pytestmark = [pytest.mark.anyio, APT]


@pytest.fixture
def root(tmp_path: Path) -> PackageRoot:
    return PackageRoot.stocked(tmp_path)


@pytest.fixture
async def host(root: PackageRoot) -> AsyncIterator[StateHost]:
    async with package_host(root) as host:
        yield host


@pytest.mark.parametrize(
    ("desired", "words"),
    [
        ({"gamma": {"installed": True}}, "gamma may not be changed"),
        ({"gone": {"installed": True}}, "no repository of this machine has such a package"),
        ({"alpha": {"installed": True, "version": "1.0"}}, "version cannot be set to '1.0'"),
        ({"alpha": {"installed": True, "version": "1.0; reboot"}}, "version cannot be set"),
        ({"alpha": {"candidate": "9"}}, "candidate cannot be set"),
        ({"homemade": {"installed": False}}, "could not be undone"),
    ],
)
async def test_what_is_not_allowed_or_could_not_be_undone_is_refused(
    host: StateHost, root: PackageRoot, desired: Any, words: str
) -> None:
    root.install_file("homemade")
    assert words in await host.refusal(desired)
    assert root.versions() == {"homemade": "1.0"}


@pytest.mark.parametrize(
    "name",
    [
        "alpha=1.0",
        "alpha-",
        "alpha/stable",
        "alpha:i386",
        "-o=x",
        "--root=/",
        "al*",
        "alpha;reboot",
        "Alpha",
        "./alpha.deb",
        "a",
    ],
)
async def test_a_name_that_apt_would_read_as_more_is_refused(host: StateHost, root: PackageRoot, name: str) -> None:
    await host.refusal({name: {"installed": True}})
    assert root.versions() == {}


async def test_a_part_without_which_nothing_can_be_installed_is_never_removed(root: PackageRoot) -> None:
    current = {"installed": True, "version": "1", "candidate": "1"}
    for name in ("dpkg", "apt", "systemd", "bash"):
        with pytest.raises(RequestError, match="required part of the system"):
            made(root, name).planned(name, {"installed": False}, current)


async def test_without_names_in_the_settings_nothing_is_shown_or_changed(root: PackageRoot) -> None:
    settings = {"manager": "apt", "root": str(root.path)}
    async with state_host("packagekit", packagekit, settings) as host:
        assert await host.state() == {}
        assert "no package may be changed" in await host.refusal({"alpha": {"installed": True}})


async def test_patterns_that_fit_too_much_are_a_clear_failure(root: PackageRoot) -> None:
    names = [f"many-{number:03}" for number in range(501)]
    stanzas = [f"Package: {name}\nVersion: 1\nArchitecture: all\nStatus: install ok installed\n" for name in names]
    (root.path / "var/lib/dpkg/status").write_text("\n".join(stanzas))
    settings = {"manager": "apt", "root": str(root.path), "packages": ["many-*"]}
    async with state_host("packagekit", packagekit, settings) as host:
        assert "fit 501 packages, more than 500" in (await host.call("query")).text


@given(
    st.one_of(
        st.text(max_size=40), st.from_regex(r"ab.{1,10}", fullmatch=True), st.text("ab0+.-=/:*; ").map("ab".__add__)
    )
)
def test_whatever_name_is_accepted_means_one_package(name: str) -> None:
    plugin = packagekit(packages=("ab*",), manager="apt")
    with suppress(RequestError):
        plugin.planned(name, {"installed": True}, {"installed": False, "version": "", "candidate": "1"})
        assert re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name)


@pytest.mark.parametrize(
    "settings",
    [
        {"packages": ["*"]},
        {"packages": ["a*"]},
        {"packages": ["-x"]},
        {"packages": ["a b"]},
        {"root": "relative", "manager": "apt"},
        {"root": "/elsewhere"},
        {"bus": "unix:path=/elsewhere"},
    ],
)
def test_wrong_settings_are_refused_at_the_start(settings: dict[str, Any]) -> None:
    registry = Registry()
    registry.add("state", "packagekit", packagekit)
    with pytest.raises(ConfigError, match=r"plugin\.packagekit"):
        registry.make("state", "packagekit", settings)
