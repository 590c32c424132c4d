"""The plugin `users`, with the programs of this machine on the files of a prefix, never on those of this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.tools.host.plugin_properties import changing, check_properties
from toolcaddie.core.errors import ConfigError, HostError, RequestError
from toolcaddie.core.states import DesiredState
from toolcaddie.states.changing import Applied, Changing
from toolcaddie.testing.part_contracts import STATE, StateSubject, check_all
from toolcaddie.tools.host.programs import place_of
from toolcaddie.tools.host.states.users import users

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(place_of("useradd") is None, reason="useradd is not installed"),
    pytest.mark.skipif(
        os.name != "posix" or os.geteuid() != 0, reason="useradd needs root, even for the files of a prefix"
    ),
]

FILES = {
    "passwd": (
        "root:x:0:0:root:/root:/bin/bash\n"
        "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
        "ann:x:40001:40001:Ann:/home/ann:/bin/bash\n"
        "bob:x:40002:40002::/home/bob:/bin/sh\n"
        "toor:x:0:0::/root:/bin/sh\n"
        "nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
        "+@netgroup\n"
    ),
    "shadow": (
        "root:$6$secretroot:19000:0:99999:7:::\n"
        "daemon:*:19000:0:99999:7:::\n"
        "ann:$6$secretann:19000:0:99999:7:::\n"
        "bob:!:19000:0:99999:7:::\n"
        "toor:!:19000:0:99999:7:::\n"
        "nobody:*:19000:0:99999:7:::\n"
    ),
    "group": "root:x:0:\ndaemon:x:1:\nsudo:x:27:ann\nann:x:40001:\nbob:x:40002:\n"
    "staff:x:40050:ann\nweb:x:40051:\nnogroup:x:65534:\n",
    "gshadow": "root:*::\ndaemon:*::\nsudo:*::ann\nann:!::\nbob:!::\nstaff:!::ann\nweb:!::\nnogroup:*::\n",
    "shells": "# shells\n/bin/sh\n/bin/bash\n",
}


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A folder with the files of a small system."""
    for folder in ("etc", "home"):
        (tmp_path / folder).mkdir()
    for name, text in FILES.items():
        (tmp_path / "etc" / name).write_text(text)
        (tmp_path / "etc" / name).chmod(0o600)
    return tmp_path


@pytest.fixture
def host(prefix: Path) -> Changing:
    return changing(users(prefix=str(prefix)))


async def made(host: Changing, desired: DesiredState) -> Applied:
    return await host.apply(await host.difference(desired))


async def refusal(host: Changing, desired: DesiredState) -> str:
    with pytest.raises(RequestError) as refused:
        await host.difference(desired)
    return str(refused.value)


@pytest.mark.proves("R004-29", "R004-31")
async def test_users_and_groups_are_read_without_passwords(host: Changing) -> None:
    state = await host.query()
    assert state["ann"] == {
        "uid": 40001,
        "gid": 40001,
        "groups": ["staff", "sudo"],
        "shell": "/bin/bash",
        "home": "/home/ann",
        "locked": False,
        "comment": "Ann",
    }
    assert state["bob"]["locked"]
    assert {name for name in state if name.startswith("group:")} == {
        "group:sudo",
        "group:staff",
        "group:web",
        "group:nogroup",
    }
    assert "secret" not in repr(state)
    assert list(await host.query("group:s*")) == ["group:staff", "group:sudo"]


@pytest.mark.proves("R004-29", "R004-31")
async def test_a_user_is_made_changed_and_deleted_and_its_home_folder_stays(prefix: Path, host: Changing) -> None:
    first = await host.query()
    await made(host, {"group:dev": {"gid": 40060}, "carl": {"uid": 40003, "groups": ["dev"], "comment": "-R /, é"}})
    assert (await host.query())["carl"] == {
        "uid": 40003,
        "gid": 40003,
        "groups": ["dev"],
        "shell": "/bin/sh",
        "home": "/home/carl",
        "locked": True,
        "comment": "-R /, é",
    }
    home = (prefix / "home" / "carl").stat()
    assert (home.st_uid, home.st_gid) == (40003, 40003)
    await made(host, {"carl": {"shell": "/bin/bash", "groups": []}})
    assert (await host.query())["carl"]["shell"] == "/bin/bash"
    await made(host, {"carl": None, "group:dev": None})
    assert (await host.query(), (prefix / "home" / "carl").is_dir()) == (first, True)


@pytest.mark.proves("R004-31")
async def test_a_deletion_is_undone_except_for_the_password(prefix: Path, host: Changing) -> None:
    first = await host.query()
    undo = (await made(host, {"bob": None})).undo
    assert "bob" not in (prefix / "etc" / "passwd").read_text()
    assert undo is not None
    await host.apply(undo)
    assert await host.query() == first


async def test_locking_keeps_the_password_and_unlocking_needs_one(prefix: Path, host: Changing) -> None:
    await made(host, {"ann": {"locked": True}})
    assert "ann:!$6$secretann" in (prefix / "etc" / "shadow").read_text()
    await made(host, {"ann": {"locked": False}})
    assert "ann:$6$secretann" in (prefix / "etc" / "shadow").read_text()
    assert "has no password" in await refusal(host, {"bob": {"locked": False}})


async def test_a_user_who_cannot_be_made_leaves_no_group(prefix: Path, host: Changing) -> None:
    before = await host.query()
    (prefix / "etc" / "passwd.lock").write_text(str(os.getpid()))  # groupadd does not need this file, useradd does
    with pytest.raises(HostError, match=r"useradd failed .* what had been done was undone"):
        await made(host, {"carl": {"uid": 40003}})
    assert await host.query() == before


@pytest.mark.parametrize("name", ["root", "daemon", "toor", "nobody", "group:sudo", "group:nogroup"])
async def test_what_belongs_to_the_system_is_never_changed(prefix: Path, host: Changing, name: str) -> None:
    files = {path.name: path.read_bytes() for path in (prefix / "etc").iterdir()}
    current = (await host.query())[name]
    assert not (await host.difference({name: current})).effective
    people: list[Any] = [None, {"locked": not current.get("locked")}, {"shell": "/x"}]
    for change in [None] if name.startswith("group:") else people:
        assert "never changed" in await refusal(host, {name: change})
    assert {path.name: path.read_bytes() for path in (prefix / "etc").iterdir()} == files


async def test_the_user_who_runs_the_server_is_never_changed(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 40002)
    assert "runs this server" in await refusal(changing(users(prefix=str(prefix))), {"bob": None})


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-x",
        "a b",
        "a:b",
        "a\nb",
        "../x",
        "a/b",
        "A",
        "a" * 40,
        "group:",
        "group:-x",
        "x\0",
        "ü",
        "--root",
        "group:group:a",
    ],
)
async def test_a_name_that_is_none_is_refused(host: Changing, name: str) -> None:
    assert "is no name" in await refusal(host, {name: {"uid": 40009}})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "needs a uid; 1000 is free"),
        ({"uid": 0}, "belongs to the system"),
        ({"uid": 999}, "belongs to the system"),
        ({"uid": 40001}, "is taken"),
        ({"uid": 40009, "gid": 27}, "belongs to the system"),
        ({"uid": 40050}, "is that of the group staff"),
        ({"uid": 40009, "groups": ["sudo"]}, "group of the system"),
        ({"uid": 40009, "groups": ["staff,sudo"]}, "is no name of a group"),
        ({"uid": 40009, "shell": "/tmp/sh"}, "not in /etc/shells"),
        ({"uid": 40009, "home": "/root"}, "is not a folder in /home"),
        ({"uid": 40009, "home": "/home/../root"}, "is not a folder in /home"),
        ({"uid": 40009, "home": "/home/ann"}, "is that of ann"),
        ({"uid": 40009, "comment": "a:0:0"}, "without a colon"),
        ({"uid": 40009, "comment": "a\nroot2::0:0"}, "printable"),
        ({"uid": 40009, "locked": False}, "has no password"),
    ],
)
async def test_a_new_user_gets_no_permissions_of_others(host: Changing, change: Any, words: str) -> None:
    assert words in await refusal(host, {"eve": change})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ann": {"uid": 40009}}, "cannot be changed"),
        ({"ann": {"gid": 40050}}, "cannot be changed"),
        ({"ann": {"groups": []}}, "sudo is a group of the system"),
        ({"ann": None}, "is not locked"),
        ({"group:staff": {"gid": 40070}}, "cannot be changed"),
        ({"group:ann": {"gid": 40070}}, "comes and goes with it"),
        ({"group:new": {"gid": 40070, "shell": "/bin/sh"}}, "has no shell"),
        ({"group:new": {}}, "needs a gid; 1000 is free"),
    ],
)
async def test_a_change_that_could_not_be_undone_or_means_nothing_is_refused(
    host: Changing, change: Any, words: str
) -> None:
    assert words in await refusal(host, change)


async def test_groups_of_the_system_are_given_only_if_an_operator_allows_them_and_a_person_is_asked(
    prefix: Path,
) -> None:
    plugin = users(prefix=str(prefix), system_groups=("sudo",))
    host = changing(plugin)
    diff = await host.difference({"bob": {"groups": ["sudo"]}})
    assert plugin.question(diff.changes[0]) == "adds bob to sudo, a group of the system"
    assert plugin.effects(diff.changes[0]) == ("users.modify bob",)
    await host.apply(diff)
    assert "sudo:x:27:ann,bob\n" in (prefix / "etc" / "group").read_text()


async def test_a_group_with_members_is_not_deleted_and_what_was_done_before_is_undone(host: Changing) -> None:
    first = await host.query()
    diff = await host.difference({"carl": {"uid": 40003}, "group:staff": None})
    with pytest.raises(HostError, match=r"still has members: ann.*what had been done was undone"):
        await host.apply(diff)
    assert await host.query() == first


async def test_a_failure_of_a_program_is_told_and_nothing_stays_changed(host: Changing) -> None:
    first = await host.query()
    diff = await host.difference({"carl": {"uid": 40003}, "dora": {"uid": 40003}})
    with pytest.raises(HostError, match=r"useradd failed|groupadd failed"):
        await host.apply(diff)
    assert await host.query() == first


def test_settings_name_plain_paths() -> None:
    for path in ("image", "/home/../root", "/a//b"):
        with pytest.raises(ConfigError, match="is no plain absolute path"):
            users(prefix=path)
        with pytest.raises(ConfigError, match="is no plain absolute path"):
            users(homes=path)


async def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    plugin = users(prefix=str(tmp_path))
    with pytest.raises(HostError, match=r"etc/group cannot be read"):
        await plugin.query()
    assert [(each.present, "etc/group" in each.detail) for each in await plugin.back_ends()] == [(False, True)]


# --- promises of every plugin -------------------------------------------------------------------------------------------


async def test_the_plugin_keeps_its_contract(prefix: Path) -> None:
    desired: DesiredState = {"carl": {"uid": 40003, "groups": ["staff"]}, "group:dev": {"gid": 40060}}
    await check_all(StateSubject(name="users", make=lambda: users(prefix=str(prefix)), desired=desired), STATE)


USERS = {"carl": 40003, "dora": 40004, "emil": 40005}
GROUPS = {"group:dev": 40060, "group:ops": 40061}


def desired_states() -> st.SearchStrategy[DesiredState]:
    """Some users and groups, each with some attributes, or gone."""
    attributes = {
        "groups": st.lists(st.sampled_from(["staff", "web"])),
        "shell": st.sampled_from(["/bin/sh", "/bin/bash", "/usr/sbin/nologin"]),
        "comment": st.text("ab é,.-'\"$", max_size=9),
    }
    people = {
        name: st.none() | st.fixed_dictionaries({"uid": st.just(uid)}, optional=attributes)
        for name, uid in USERS.items()
    }
    groups = {name: st.none() | st.just({"gid": gid}) for name, gid in GROUPS.items()}
    return st.fixed_dictionaries({}, optional={**people, **groups})


def test_random_states_are_reached_and_left_again(prefix: Path) -> None:
    check_properties(lambda: users(prefix=str(prefix)), desired_states())


def test_the_files_of_this_machine_are_not_touched() -> None:
    names = {line.split(":")[0] for line in Path("/etc/passwd").read_text().splitlines()}
    assert names.isdisjoint({*USERS, "eve"})
