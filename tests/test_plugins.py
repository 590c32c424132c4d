from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import CatalogError, ConfigError
from toolcaddie.core.run import RunContext
from toolcaddie.core.schema import wire_definition
from toolcaddie.doors.cli.root import cli
from toolcaddie.ports import ToolSource
from toolcaddie.registry import SOCKETS, Plugin, Registry
from toolcaddie.sources.named import load_catalog


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to stand in; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def stranger(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another package with plugins, installed as far as Python can see: two good ones and three that fail."""
    (folder / "stranger.py").write_text(
        "from toolcaddie.sources.functions import FunctionSource\n"
        "def add(a: int, b: int) -> int:\n    return a + b\n"
        "def source():\n    return FunctionSource('sums', [add])\n"
        "def broken():\n    raise RuntimeError('no network')\n"
    )
    (folder / "crashing.py").write_text("1 / 0\n")
    info = folder / "stranger-2.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 2.1\n")
    (info / "entry_points.txt").write_text(
        "[toolcaddie.sources]\n"
        "sums = stranger:source\n"
        "broken = stranger:broken\n"
        "crashing = crashing:source\n"
        "gone = not_installed_at_all:source\n"
        "mistyped = stranger:sauce\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    return folder


def loaded(spec: str) -> ToolSource:
    return load_catalog(spec)


def names(source: ToolSource) -> list[str]:
    return [tool.name for tool in source.tools()]


def complaint(spec: str) -> str:
    with pytest.raises(ConfigError) as raised:
        loaded(spec)
    return str(raised.value)


# --- entry points ----------------------------------------------------------------------------------------------------


def test_our_own_parts_come_in_by_the_strangers_door() -> None:
    registry = Registry()
    providers = registry.plugins("provider")
    assert {"openai", "practice"} <= {plugin.name for plugin in providers}
    assert {plugin.distribution for plugin in providers} == {"toolcaddie"}
    assert all(plugin.error is None for socket in SOCKETS for plugin in registry.plugins(socket))


@pytest.mark.usefixtures("stranger")
def test_plugins_that_fail_are_reported_with_their_error_and_the_others_work() -> None:
    plugins = {plugin.name: plugin for plugin in Registry().plugins("source") if plugin.distribution == "stranger"}
    assert plugins["sums"] == Plugin(
        name="sums", group="toolcaddie.sources", target="stranger:source", distribution="stranger", version="2.1"
    )
    assert "ZeroDivisionError" in (plugins["crashing"].error or "")
    assert "crashing.py:1" in (plugins["crashing"].error or "")
    assert "No module named 'not_installed_at_all'" in (plugins["gone"].error or "")
    assert "sauce" in (plugins["mistyped"].error or "")
    assert names(loaded("sums")) == ["add"]


@pytest.mark.usefixtures("stranger")
def test_using_a_plugin_that_fails_says_which_and_why() -> None:
    assert "plugin 'crashing' of toolcaddie.sources (crashing:source) cannot be loaded: ZeroDivisionError" in complaint(
        "crashing"
    )
    assert "making it failed: RuntimeError: no network" in complaint("broken")


def test_a_group_of_an_earlier_version_is_refused_with_its_new_name(stranger: Path) -> None:
    points = stranger / "stranger-2.1.dist-info" / "entry_points.txt"
    points.write_text("[toolcaddie.catalogs]\nsums = stranger:source\n")
    (plugin,) = [plugin for plugin in Registry().plugins("source") if plugin.distribution == "stranger"]
    assert "this group was renamed to toolcaddie.sources" in (plugin.error or "")
    with pytest.raises(
        ConfigError, match=r"it is in the group toolcaddie\.catalogs, which was renamed to toolcaddie\.sources"
    ):
        Registry().make("source", "sums")


def test_an_unknown_plugin_is_refused_with_the_close_and_the_known_names() -> None:
    with pytest.raises(ConfigError, match=r"no plugin 'opnai' in toolcaddie.providers; did you mean 'openai'"):
        Registry().factory("provider", "opnai")


def test_an_unknown_catalog_says_what_a_catalog_may_be() -> None:
    text = complaint("gim")
    assert "no catalog 'gim'; did you mean 'gym'?" in text
    assert "a file ending in .jsonl, python:module, openapi:FILE_OR_URL, mcp:URL or mcp:COMMAND" in text


# --- definitions in a file -------------------------------------------------------------------------------------------


LINES = [
    {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
    {"name": "list_all", "category": "lists", "hints": ["show"], "tags": ["x"], "core": True, "read_only": True},
    {
        "type": "function",
        "function": {
            "name": "wired",
            "description": "W.",
            "parameters": {"type": "object", "properties": {}},
            "strict": True,
        },
        "category": "wires",
    },
]


def write(path: Path, *lines: object) -> str:
    path.write_text("\n".join(line if isinstance(line, str) else msgspec.json.encode(line).decode() for line in lines))
    return str(path)


def test_a_file_of_definitions_is_a_catalog(folder: Path) -> None:
    source = loaded(write(folder / "mine.jsonl", LINES[0], "", LINES[1], "   ", LINES[2]))
    add, listing, wired = source.tools()
    assert source.name == "mine.jsonl"
    assert (add.name, add.description, add.category, add.source) == ("add", "Add.", None, "mine.jsonl")
    assert add.input_schema["properties"] == {"a": {"type": "integer"}}
    assert (listing.category, listing.hints, listing.tags, listing.core) == ("lists", ("show",), ("x",), True)
    assert listing.annotations.read_only is True
    assert listing.input_schema == {"type": "object", "properties": {}}
    assert (wired.category, wired.description) == ("wires", "W.")
    assert Catalog.of(source.tools(), source.categories()).category("wires") is not None


def test_a_definition_in_openai_s_form_goes_out_as_it_came_in(folder: Path) -> None:
    (wired,) = loaded(write(folder / "mine.jsonl", LINES[2])).tools()
    assert wire_definition(wired) == {"type": "function", "function": LINES[2]["function"]}


def test_a_definition_in_either_form_may_say_what_it_does(folder: Path) -> None:
    beside = {**LINES[2], "read_only": False, "destructive": False}
    listing, wired, add = loaded(write(folder / "mine.jsonl", LINES[1], beside, LINES[0])).tools()
    assert [listing.may_destroy, wired.may_destroy] == [False, False]
    assert add.may_destroy, "a tool that says nothing counts as able to destroy"
    assert "read_only" not in str(wire_definition(wired))


def test_a_file_with_windows_line_ends_and_a_byte_order_mark_is_read(folder: Path) -> None:
    (folder / "mine.jsonl").write_bytes(b'\xef\xbb\xbf{"name": "a"}\r\n{"name": "b"}\r\n')
    assert names(loaded("mine.jsonl")) == ["a", "b"]


@pytest.mark.anyio
async def test_a_tool_without_code_answers_that_it_cannot_run(folder: Path) -> None:
    source = loaded(write(folder / "mine.jsonl", LINES[0]))
    view = View(catalog=Catalog.of(source.tools()))
    context = RunContext(run_id="r", principal=Principal(), view=view, model="m")
    result = await source.call_tool(source.tools()[0], {}, context)
    assert result.error == "failed"
    assert "add cannot run here" in result.content


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"name": "x"', "the JSON is incomplete"),
        ("[1]", "Expected `object`, got `array`"),
        ('{"description": "x"}', "missing required field `name`"),
        ('{"name": 5}', "Expected `str`, got `int` - at `$.name`"),
        ('{"name": "x", "descripton": ""}', "unknown field `descripton`"),
        ('{"name": "two words"}', "a name is 1 to 64 letters"),
        ('{"name": "x", "parameters": {"type": "array"}}', "must have type 'object'"),
        ('{"name": "x", "parameters": {"properties": {"a": {"$ref": "http://h/x"}}}}', "never fetched"),
        ('{"type": "retrieval", "function": {"name": "x"}}', "retrieval"),
        ('{"type": "function", "function": {"description": "x"}}', "a function that has a name"),
        ("[" * 5_000, "recursion"),
        ('{"name": "\xff"}', "can't decode byte 0xff"),
    ],
)
def test_a_bad_line_is_named_with_its_number_and_what_is_wrong(folder: Path, line: str, message: str) -> None:
    (folder / "mine.jsonl").write_bytes(b'{"name": "first"}\n\n' + line.encode("latin-1"))
    text = complaint("mine.jsonl")
    assert text.startswith("mine.jsonl:3: ")
    assert message in text


def test_a_name_used_twice_names_both_lines(folder: Path) -> None:
    write(folder / "mine.jsonl", {"name": "a"}, {"name": "b"}, {"name": "a"})
    assert "mine.jsonl:3: tool 'a' is on line 1 already; rename or remove one" in complaint("mine.jsonl")


def test_several_bad_lines_are_told_at_once_and_many_are_counted(folder: Path) -> None:
    write(folder / "mine.jsonl", *["{"] * 23)
    lines = complaint("mine.jsonl").splitlines()
    assert [line.partition(": ")[0] for line in lines[:20]] == [f"mine.jsonl:{number}" for number in range(1, 21)]
    assert lines[20:] == ["... and 3 more"]


def test_a_missing_or_empty_file_says_what_to_do(folder: Path) -> None:
    assert "missing.jsonl cannot be read: No such file" in complaint("missing.jsonl")
    (folder / "empty.jsonl").write_text("\n\n")
    assert "empty.jsonl holds no tools; write one JSON object a line" in complaint("empty.jsonl")


# --- python:module ---------------------------------------------------------------------------------------------------

MODULE = """
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.core.tool import Tool

@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

def plain(text: str) -> str:
    return text

def needs(argument): ...

def make():
    return FunctionSource("made", [add, plain])

def make_list():
    return [plain]

def fails():
    raise ValueError("no table")

listed = [add, plain]
definitions = [Tool(name="known"), Tool(name="unknown")]
ready = FunctionSource("ready", [add])
nothing = []
number = 5

class Box:
    inside = ready
"""


@pytest.mark.parametrize(
    ("spec", "tools"),
    [
        ("python:mine", ["add"]),
        ("python:mine:listed", ["add", "plain"]),
        ("python:mine:make", ["add", "plain"]),
        ("python:mine:make_list", ["plain"]),
        ("python:mine:ready", ["add"]),
        ("python:mine:Box.inside", ["add"]),
        ("python:mine:definitions", ["known", "unknown"]),
    ],
)
def test_a_module_of_the_folder_one_stands_in_is_a_catalog(folder: Path, spec: str, tools: list[str]) -> None:
    (folder / "mine.py").write_text(MODULE)
    assert names(loaded(spec)) == tools


def test_a_module_with_a_source_gives_that_source(folder: Path) -> None:
    (folder / "mine.py").write_text(MODULE + "\nsource = ready\n")
    assert loaded("python:mine").name == "ready"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("python:", "names no module; write python:module"),
        ("python:mien", "there is no module 'mien' in"),
        ("python:mine.sub", "there is no module 'mine.sub'"),
        ("python:mine:lsited", "mine has no 'lsited'; did you mean 'listed'?"),
        ("python:mine:number", "a int is no catalog; name a ToolSource, a list of functions"),
        ("python:mine:nothing", "holds no tools; mark functions with @tool"),
        ("python:mine:needs", "makes no catalog without arguments; name a list of functions"),
        ("python:mine:fails", "making it failed: ValueError: no table ("),
        ("python:crashing", "importing crashing failed: ZeroDivisionError: division by zero ("),
        ("python:crashing", "crashing.py:3)"),
        ("python:wanting", "No module named 'not_installed'"),
        ("python:wanting", "install it, or correct the import"),
        ("python:unreadable", "SyntaxError: invalid syntax ("),
        ("python:unreadable", "unreadable.py:1)"),
        ("python:json", "catalog 'python:json': module 'json' has no function marked @tool"),
    ],
)
def test_what_is_wrong_with_a_module_is_said_with_its_place(folder: Path, spec: str, message: str) -> None:
    (folder / "mine.py").write_text(MODULE)
    (folder / "crashing.py").write_text("a = 1\n\n1 / 0\n")
    (folder / "wanting.py").write_text("import not_installed\n")
    (folder / "unreadable.py").write_text("def (:\n")
    text = complaint(spec)
    assert message in text
    assert "importlib" not in text


def test_a_function_that_can_be_no_tool_is_refused_by_name(folder: Path) -> None:
    (folder / "mine.py").write_text("def bad(x: object, *rest): ...\nlisted = [bad, bad]\n")
    with pytest.raises(CatalogError, match="bad"):
        loaded("python:mine:listed")


# --- the pages -------------------------------------------------------------------------------------------------------

DOCS = Path(__file__).parents[1] / "docs"


def test_every_group_of_entry_points_stands_in_the_table_of_plugins() -> None:
    section = (DOCS / "settings.md").read_text().partition("\n## Plugins\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(toolcaddie\.\w+)` \| a function", section, re.MULTILINE)
    assert rows == [(socket.name, socket.group) for socket in SOCKETS.values()]


def test_the_sink_of_the_docs_joins_every_command_by_its_entry_point(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (DOCS / "telemetry.md").read_text().partition("\n## A sink of your own\n")[2]
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0].partition("\n@tool")[0]
    name, target = re.findall(r'^(\w+) = "([\w:]+)"$', page, re.MULTILINE)[0]
    (folder / f"{target.partition(':')[0]}.py").write_text(code)
    info = folder / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[toolcaddie.sinks]\n{name} = {target}\nbroken = {target}Gone\n")
    monkeypatch.syspath_prepend(str(folder))
    done = CliRunner().invoke(
        cli, ["call", "convert_currency", "amount=20", "from_currency=EUR", "to_currency=USD", "--catalog", "gym"]
    )
    assert done.exit_code == 0, done.output
    assert (folder / "calls.txt").read_text().splitlines()[-1].endswith(" convert_currency ok")
    assert "sink_left_out" in done.stderr, "a sink that cannot be made is said"
