"""The flags of an imported file: each switches one group of tools, and the tools stand in the same order whatever the file's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.doors.commandline import CommandLine
from toolcaddie.core.bots import GROUP_OF

TOOLS_OF: Mapping[str, Sequence[str]] = {
    "webTools": ("web_search", "web_fetch"),
    "exec": ("exec",),
    "processTools": ("process",),
    "fileTools": ("file_read", "file_write", "file_edit"),
    "datetime": ("get_datetime",),
    "phoneCall": ("phone_call",),
    "cron": ("cron",),
    "soul": ("save_memory", "update_soul", "update_identity", "manage_goals"),
    "improve": ("improve",),
    "collaboration": ("collaborate",),
    "dynamicTools": ("create_tool",),
}
"""The tools of each flag. `delegate_to_bot` has none: it is there for several bots."""
MEMORY = ("memory_search", "memory_get")
"""Tools of `soul.search`, which has a flag of its own below `soul`."""
GROUPS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"enabled": True} for name in TOOLS_OF},
    "webTools": {"enabled": True, "search": {"apiKey": "${SEARCH_KEY}"}},
    "phoneCall": {"enabled": True, "accountSid": "${SID}", "authToken": "${TOKEN}", "fromNumber": "+5491100000000"},
    "soul": {"enabled": True, "search": {"enabled": True}},
}
SEVEN = ("exec", "file_write", "file_edit", "phone_call", "improve", "process", "cron")
BOTS = [{"id": "assistant"}, {"id": "therapist", "disabledTools": SEVEN}]
ORDER = (
    *("web_search", "web_fetch", "exec", "process", "file_read", "file_write", "file_edit", "get_datetime"),
    *("phone_call", "cron", "save_memory", "update_soul", "update_identity", "manage_goals", "improve"),
    *("delegate_to_bot", "collaborate", "create_tool", "memory_search", "memory_get"),
)


@pytest.fixture
def home(toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.setenv("SEARCH_KEY", "a-key")
    monkeypatch.setenv("SID", "AC0")
    monkeypatch.setenv("TOKEN", "a-token")
    return toolcaddie


def imported(toolcaddie: CommandLine, groups: Mapping[str, Any]) -> list[str]:
    """Returns the tools of the first bot after the import of a file with these groups."""
    Path("config.json").write_text(f"// made by hand\n{json.dumps({**groups, 'bots': BOTS})}")
    toolcaddie.ok("import", "config.json", "--force")
    names: list[str] = toolcaddie.json("bots", "show", "assistant")["tools"]["conversation"]
    return names


def switched(**flags: bool) -> dict[str, Any]:
    return {name: {**group, "enabled": flags.get(name, True)} for name, group in GROUPS.items()}


@pytest.mark.proves("R002-6")
def test_all_built_in_tools_stand_in_one_order_whatever_that_of_the_file(home: CommandLine) -> None:
    assert set(ORDER) == set(GROUP_OF)
    assert tuple(imported(home, GROUPS)) == ORDER
    assert tuple(imported(home, dict(reversed([*GROUPS.items()])))) == ORDER
    without = imported(home, dict(reversed([*switched(cron=False, soul=False, webTools=False).items()])))
    left_out = {*TOOLS_OF["cron"], *TOOLS_OF["soul"], *TOOLS_OF["webTools"], *MEMORY}
    assert tuple(without) == tuple(name for name in ORDER if name not in left_out)


@pytest.mark.proves("R002-101")
@pytest.mark.parametrize("flag", TOOLS_OF)
def test_each_flag_alone_switches_its_group(home: CommandLine, flag: str) -> None:
    brought = {
        *TOOLS_OF[flag],
        *(MEMORY if flag == "soul" else ()),
        *(("process",) if flag == "exec" else ()),  # there is nothing for it to look after without exec
    }
    assert tuple(imported(home, switched(**{flag: False}))) == tuple(name for name in ORDER if name not in brought)
    assert set(imported(home, {flag: GROUPS[flag]})) - {"delegate_to_bot"} == {
        *(TOOLS_OF[flag] if flag != "processTools" else ()),
        *(MEMORY if flag == "soul" else ()),
    }


@pytest.mark.proves("R002-102")
def test_the_therapist_of_the_file_lacks_its_seven_tools_and_no_others(home: CommandLine) -> None:
    imported(home, GROUPS)
    rest = tuple(name for name in ORDER if name not in SEVEN)
    modes = home.json("bots", "show", "therapist")["tools"]
    assert (tuple(modes["conversation"]), tuple(modes["autonomous"])) == (rest, rest)
    assert set(modes["collaboration"]) < set(rest)


def test_the_flags_are_eleven_and_reach_every_built_in_tool_but_those_of_memory_and_delegation() -> None:
    assert len(TOOLS_OF) == 11
    assert {*chain(*TOOLS_OF.values())} == {*GROUP_OF} - {*MEMORY, "delegate_to_bot"}
