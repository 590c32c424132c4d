"""The plugin `lxc`, against a scripted server that speaks the interface of Incus strictly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.host.incus_calling import IMAGES, SOCKET, hosted, made
from tests.tools.host.incus_server import IncusServer
from tests.tools.host.plugin_properties import check_properties
from toolcaddie.core.errors import RequestError
from toolcaddie.core.states import DesiredState
from toolcaddie.states.differences import difference
from toolcaddie.testing.part_contracts import STATE, StateSubject, check_all
from toolcaddie.tools.host.states.lxc import LxcPlugin

pytestmark = pytest.mark.anyio

EMPTY = {"limits.cpu": "", "limits.memory": "", "limits.processes": "", "boot.autostart": ""}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[IncusServer]:
    server = IncusServer()
    with server.serving(tmp_path / SOCKET):
        yield server


@pytest.fixture
def plugin(server: IncusServer, tmp_path: Path) -> LxcPlugin:
    return made(tmp_path)


async def test_it_keeps_the_contract_of_state_plugins(server: IncusServer, tmp_path: Path) -> None:
    server.add("old", config={"user.toolcaddie.image": "debian/12", "limits.cpu": "1"}, status="Running")
    server.add("gone")
    desired: DesiredState = {"new": {"image": "debian/12"}, "old": {"limits.cpu": "2", "running": False}, "gone": None}
    await check_all(StateSubject(name="lxc", make=lambda: made(tmp_path), desired=desired), STATE)


NAMES = st.sampled_from(["a", "web-1", "Db", "x" * 63])
VALUES = st.fixed_dictionaries(
    {"image": st.sampled_from(sorted(IMAGES))},
    optional={
        "running": st.booleans(),
        "profiles": st.sampled_from([[], ["default"], ["web", "default"]]),
        "description": st.text(st.characters(categories=["L", "N"]), max_size=20),
        "limits.cpu": st.sampled_from(["", "1", "0-3", "0,2"]),
        "limits.memory": st.sampled_from(["", "512MiB", "2GB", "50%"]),
        "limits.processes": st.sampled_from(["", "100"]),
        "boot.autostart": st.sampled_from(["", "true", "false"]),
    },
)


def with_one_image(states: dict[str, Any]) -> DesiredState:
    """An image cannot be changed, so each name has its own."""
    images = sorted(IMAGES)
    return {name: value and {**value, "image": images[len(name) % 2]} for name, value in states.items()}


def test_random_states_are_reached_and_left_again(server: IncusServer, tmp_path: Path) -> None:
    states = st.dictionaries(NAMES, st.one_of(st.none(), VALUES), min_size=1).map(with_one_image)
    check_properties(lambda: made(tmp_path), states)


@pytest.mark.proves("R004-29", "R004-31")
async def test_a_container_is_created_and_started(server: IncusServer, tmp_path: Path) -> None:
    async with hosted(tmp_path) as host:
        result = await host.apply({"web-1": {"image": "debian/12", "limits.memory": "1GiB", "profiles": ["web"]}})
        assert result.success, result.text
        assert await host.state() == {
            "web-1": {
                **EMPTY,
                "running": True,
                "image": "debian/12",
                "profiles": ["web"],
                "description": "",
                "limits.memory": "1GiB",
                "other": [],
            }
        }
    assert server.instances["web-1"]["status"] == "Running"
    assert server.instances["web-1"]["config"]["limits.memory"] == "1GiB"


async def test_effects_and_questions_name_what_happens(server: IncusServer, plugin: LxcPlugin) -> None:
    server.add("a", config={"user.toolcaddie.image": "debian/12"}, status="Running")
    state = await plugin.query()
    desired: list[DesiredState] = [
        {"a": None},
        {"a": {"running": False}},
        {"a": {"limits.cpu": "2"}},
        {"b": {"image": "debian/12"}},
        {"b": {"image": "debian/12", "running": False}},
    ]
    changes = [difference(plugin, state, each).changes[0] for each in desired]
    assert [plugin.effects(change) for change in changes] == [
        ("lxc.delete a", "lxc.stop a"),
        ("lxc.stop a",),
        ("lxc.modify a",),
        ("lxc.create b", "lxc.start b"),
        ("lxc.create b",),
    ]
    assert "deletes a with all its files" in plugin.question(changes[0])
    assert not any(map(plugin.question, changes[1:]))
    await plugin.close()


async def test_what_others_have_set_stays_and_is_shown_by_its_name(server: IncusServer, tmp_path: Path) -> None:
    config = {"raw.lxc": "lxc.mount.entry = /etc", "security.privileged": "true"}
    server.add("theirs", config=config, devices={"data": {"type": "disk"}})
    async with hosted(tmp_path) as host:
        assert (await host.state())["theirs"]["other"] == ["device data", "raw.lxc", "security.privileged"]
        result = await host.apply({"theirs": {"limits.cpu": "2"}})
        assert result.success, result.text
        assert "could not be created again" in await host.refusal({"theirs": None})
    assert server.instances["theirs"]["config"]["raw.lxc"] == config["raw.lxc"]
    assert server.instances["theirs"]["devices"] == {"data": {"type": "disk"}}
    assert "lxc.mount" not in result.text


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"image": "evil"}, "is not allowed"),
        ({"image": "https://evil.example.org/x"}, "is not allowed"),
        ({}, "give its image"),
        ({"image": "debian/12", "profiles": ["root"]}, "the profile 'root' is not allowed"),
        ({"image": "debian/12", "other": ["raw.lxc"]}, "cannot set: raw.lxc"),
        ({"image": "debian/12", "limits.cpu": "1\nraw.lxc=x"}, "limits.cpu is"),
        ({"image": "debian/12", "limits.cpu": "1\u0968"}, "limits.cpu is"),
        ({"image": "debian/12", "limits.processes": "1\uff12"}, "limits.processes is"),
        ({"image": "debian/12", "limits.memory": "-1"}, "limits.memory is"),
        ({"image": "debian/12", "boot.autostart": "yes"}, "boot.autostart is"),
        ({"image": "debian/12", "description": "a\x1b]52;c"}, "description is"),
        ({"image": "debian/12", "profiles": ["web", "web"]}, "each once"),
        ({"image": "debian/12", "security.privileged": "true"}, "security.privileged"),
        ({"image": "debian/12", "raw.lxc": "x"}, "raw.lxc"),
        ({"image": "debian/12", "devices": {}}, "devices"),
    ],
)
async def test_what_the_operator_has_not_allowed_is_refused(
    server: IncusServer, tmp_path: Path, attributes: dict[str, Any], words: str
) -> None:
    async with hosted(tmp_path) as host:
        result = await host.call("diff", desired_state={"a": attributes})
    assert result.error == "invalid_arguments"
    assert words in result.text
    assert not server.instances


async def test_the_plugin_itself_refuses_keys_that_the_schema_would(plugin: LxcPlugin) -> None:
    for key in ("raw.lxc", "security.privileged", "devices", "user.toolcaddie.image"):
        with pytest.raises(RequestError, match="no attribute"):
            plugin.planned("a", {"image": "debian/12", key: "x"}, None)


@pytest.mark.parametrize(
    "name", ["1a", "a-", "-a", "a/../b", "a?project=x", "a b", "a_b", "ä", "a" * 64, "a%2f", "a\n"]
)
async def test_a_name_that_no_container_may_have_never_reaches_the_server(
    server: IncusServer, tmp_path: Path, name: str
) -> None:
    async with hosted(tmp_path) as host:
        assert "no name of a container" in await host.refusal({name: {"image": "debian/12"}})
    assert set(server.requests) <= {"GET /1.0/instances"}


@given(name=st.text(max_size=70), key=st.sampled_from(sorted(EMPTY)), value=st.text(max_size=30))
def test_whatever_text_is_accepted_has_letters_digits_and_few_signs(name: str, key: str, value: str) -> None:
    """A line feed, a quote or a slash would mean something to the server, or to whoever reads its configuration."""
    plugin = made(Path())
    for target, attributes in ((name, {}), ("a", {key: value})):
        try:
            after = plugin.planned(target, {"image": "debian/12", **attributes}, None)
        except RequestError:
            continue
        assert after is not None
        assert re.fullmatch(r"[A-Za-z0-9-]+", target)
        assert re.fullmatch(r"[A-Za-z0-9,%-]*", after[key])


async def test_without_images_in_the_settings_no_container_is_created(server: IncusServer, tmp_path: Path) -> None:
    async with hosted(tmp_path, images={}) as host:
        assert "the settings allow no image" in await host.refusal({"a": {"image": "debian/12"}})


async def test_an_image_cannot_be_changed(server: IncusServer, tmp_path: Path) -> None:
    server.add("a")
    async with hosted(tmp_path) as host:
        assert "image cannot be changed" in await host.refusal({"a": {"image": "debian/12"}})


async def test_stopping_what_would_vanish_is_refused(server: IncusServer, tmp_path: Path) -> None:
    server.add("a", ephemeral=True, status="Running")
    async with hosted(tmp_path) as host:
        assert "stopping it would delete it" in await host.refusal({"a": {"running": False}})


async def test_a_value_that_could_not_be_set_again_stays(server: IncusServer, tmp_path: Path) -> None:
    server.add("a", profiles=["secret"])
    async with hosted(tmp_path) as host:
        assert "its profiles stays" in await host.refusal({"a": {"profiles": ["default"]}})
