"""Names that no catalog may take: those of meta tools, and those of the tools that ship with the product."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.doors.commandline import CommandLine
from tests.doors.conftest import toolcaddie  # noqa: F401  (a fixture)
from tests.doors.serving import gateway
from toolcaddie.core.errors import CatalogError, ConfigError
from toolcaddie.core.meta_names import META_TOOLS, READ_RESULT
from toolcaddie.core.reserved import RESERVED_NAMES
from toolcaddie.core.tool import Tool
from toolcaddie.runtime import Runtime
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.sources.definitions import DefinitionSource
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import ScriptedProvider, call, say


def function(name: str) -> Any:
    def run() -> str:
        return f"my own {name}"

    run.__name__ = name
    run.__doc__ = f"My own {name}."
    return tool(run)


def runtime(*names: str, **options: Any) -> Runtime:
    return Runtime(provider=ScriptedProvider([]), sources=[function(name) for name in names], **options)


def test_20_names_of_bots_and_54_of_hosts_are_reserved() -> None:
    of_bots = [name for name, what in RESERVED_NAMES.items() if "bots" in what]
    assert (len(of_bots), len(RESERVED_NAMES)) == (20, 74)
    assert {"web_search", "exec", "create_tool", "phone_call", "file_edit"} <= set(of_bots)
    hosts = set(RESERVED_NAMES) - set(of_bots)
    assert {"read_file", "respond_to_user", "systemd_reload_daemon", "ovs_del_flows", "plugin_lxc_apply"} <= hosts
    groups = {prefix: sum(name.startswith(prefix) for name in hosts) for prefix in ("systemd_", "ovs_", "plugin_")}
    assert groups == {"systemd_": 8, "ovs_": 10, "plugin_": 27}


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_a_catalog_cannot_take_one_and_is_told_why_and_what_to_do(name: str) -> None:
    with pytest.raises(
        CatalogError, match=f"tool '{name}' of source 'functions': the name is reserved for a built-in"
    ) as no:
        runtime(name, "other")
    assert f'replace_reserved = ["{name}"] under [catalog]' in str(no.value)


@pytest.mark.parametrize("name", [*sorted(META_TOOLS), READ_RESULT])
def test_a_catalog_cannot_take_a_meta_tools_name_by_any_means(name: str) -> None:
    with pytest.raises(CatalogError, match=f"tool '{name}' of source 'functions': a meta tool has this name"):
        runtime(name)
    with pytest.raises(ConfigError, match="is not reserved"):
        runtime("mine", replace_reserved=[name])


def test_all_reserved_names_of_a_source_are_told_at_once() -> None:
    with pytest.raises(CatalogError) as refused:
        runtime("read_file", "mine", "write_file", "list_directory", replace_reserved=["list_directory"])
    assert 'replace_reserved = ["read_file","write_file"]' in str(refused.value)


@pytest.mark.anyio
async def test_who_says_so_has_a_tool_of_that_name() -> None:
    made = runtime("web_search", replace_reserved=["web_search"])
    assert (await made.call("web_search", {})).content == "my own web_search"
    with pytest.raises(
        ConfigError, match=r"catalog\.replace_reserved.*'web_serch' is not reserved; did you mean 'web_search'"
    ):
        runtime("mine", replace_reserved=["web_serch"])


def test_a_source_that_ships_with_the_product_claims_its_own_names_and_no_others() -> None:
    shipped = FunctionSource("files", [function("file_read")], claims=("file_read", "file_write"))
    mine = FunctionSource("mine", [function("note")])
    inner = CombinedSource([shipped], name="inner")
    assert [held.name for held in CombinedSource([inner, mine]).snapshot()] == ["file_read", "note"]
    with pytest.raises(CatalogError, match="'exec' of source 'files': the name is reserved"):
        CombinedSource([FunctionSource("files", [function("exec")], claims=("file_read",))])
    with pytest.raises(CatalogError, match="from source 'files' and again from source 'mine'"):
        CombinedSource([shipped, FunctionSource("mine", [function("file_read")])], replace_reserved=["file_read"])


def test_a_tool_that_takes_one_later_is_left_out_alone_and_said() -> None:
    source = FunctionSource("mine", [function("note")])
    combined = CombinedSource([source])
    source.add(function("exec"))
    source.add(function("other"))
    assert [held.name for held in combined.snapshot()] == ["note", "other"]
    assert "reserved for a built-in tool of bots" in combined.problems[0]


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["read_file", "web_search", "exec", "read_result", "list_tools"])
async def test_a_clients_own_tool_keeps_its_name_at_the_gateway(tmp_path: Path, name: str) -> None:
    function_of_the_client: Mapping[str, Any] = {"name": name, "description": "Mine.", "parameters": {"type": "object"}}
    provider = ScriptedProvider([call(name, {}), say("done")])
    async with gateway(tmp_path, provider, sources=[function("note")]) as door:
        answer = await door.client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "use mine"}],
            tools=[{"type": "function", "function": function_of_the_client}],  # type: ignore[list-item]
        )
    (made,) = answer.choices[0].message.tool_calls or ()
    assert made.function.name == name  # type: ignore[union-attr]
    assert name in [sent["function"]["name"] for sent in provider.requests[0].tools]


def test_definitions_without_code_are_held_to_it_as_well() -> None:
    with pytest.raises(CatalogError, match="'cron' of source 'work': the name is reserved"):
        CombinedSource([DefinitionSource("work", [Tool(name="cron", source="work")], origin="a test")])


def test_the_command_line_refuses_and_takes_the_setting(toolcaddie: CommandLine) -> None:  # noqa: F811
    lines = [{"name": name, "description": f"{name} of ours"} for name in ("read_file", "note")]
    Path("tools.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for command in (("tools",), ("select", "read a file")):
        said = toolcaddie.refused(*command, "--catalog", "tools.jsonl")
        assert "tool 'read_file' of source 'tools.jsonl': the name is reserved for a built-in tool of hosts" in said
    Path("toolcaddie.toml").write_text('catalogs = ["tools.jsonl"]\n[catalog]\nreplace_reserved = ["read_file"]\n')
    assert toolcaddie.json("tools")["count"] == 2
    assert "read_file" in toolcaddie.ok("select", "read a file")
