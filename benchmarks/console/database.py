"""Makes the large database of the console, with its settings and its catalog: python -m benchmarks.console.database FOLDER

100,000 runs with a million events, 10,000 tools from four files, five bots, and all else that a page of the console shows. The
folder is used by `pages` and `page_views`, which make it if it is missing. It takes some minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.console.counting import counted
from benchmarks.console.desks import QUARANTINED, TOOLS, furnish
from benchmarks.console.evaluations import evaluate
from benchmarks.console.trail import BOTS, record_runs
from benchmarks.selection import catalog
from toolcaddie.app.build import assembled
from toolcaddie.app.settings import Settings, load_settings
from toolcaddie.core.tool import Tool

RUNS, CATALOG = 100_000, 10_000
FILES = 4
"""Number of files into which the catalog is divided."""
_DONE = "done.json"
_SETTINGS = "toolcaddie.toml"
_RULES = 60


def prepared(folder: Path, runs: int = RUNS) -> Settings:
    """Makes the folder if it is missing, and returns its settings."""
    if not (folder / _DONE).exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        begun, tools = time.monotonic(), tools_of(CATALOG)
        _write_settings(folder, tools)
        asyncio.run(_fill(load_settings(folder / _SETTINGS), runs, tools))
        (folder / _DONE).write_text(json.dumps({"runs": runs, "seconds": round(time.monotonic() - begun, 1)}))
    return load_settings(folder / _SETTINGS)


def runs_in(folder: Path) -> int:
    """Returns the number of runs in a folder."""
    return int(json.loads((folder / _DONE).read_text())["runs"])


def tools_of(size: int) -> Sequence[Tool]:
    """Returns the tools of the catalog."""
    return catalog(size).tools


async def _fill(settings: Settings, runs: int, tools: Sequence[Tool]) -> None:
    async with assembled(settings) as parts:
        await furnish(parts, tools)
        await evaluate(parts, tools)
        begun = time.monotonic()
        categories = sorted({tool.category or "" for tool in tools})
        await record_runs(parts.event_log, runs, [tool.name for tool in tools], categories)
        print(f"recorded {runs:,} runs in {time.monotonic() - begun:.0f} s", flush=True)
        print(f"counted the trail: {await counted(parts)}", flush=True)


def _write_settings(folder: Path, tools: Sequence[Tool]) -> None:
    part = -(-len(tools) // FILES)
    for number in range(FILES):
        lines = [json.dumps(_line(tool)) for tool in tools[number * part : (number + 1) * part]]
        (folder / f"tools_{number}.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "policy.cedar").write_text("\n".join(_rule(number, tools) for number in range(_RULES)))
    bots = [f'[bots.{bot}]\ndescription = "answers questions"\nskills = ["tea", "coffee"]\n' for bot in BOTS]
    sources = [f'[[source]]\ntype = "jsonl"\npath = "{folder / f"tools_{n}.jsonl"}"\n' for n in range(FILES)]
    text = f"""
database_url = "sqlite:///{folder / "console.sqlite"}"
model = "openai:gpt-5-mini"
default_bot = "{BOTS[0]}"

[upstream]
url = "http://127.0.0.1:9/v1"

[sandbox]
type = "plain"

[policy]
ask = ["delete_*"]
files = ["{folder / "policy.cedar"}"]

[[source]]
type = "authored"
store_path = "{folder / "authored"}"
max_tools_per_bot = {TOOLS}

[[source]]
type = "mcp"
name = "{QUARANTINED}"
command = "/no/such/program"

{"".join(sources)}
{"".join(bots)}
"""
    (folder / _SETTINGS).write_text(text)


def _line(tool: Tool) -> dict[str, object]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        "category": tool.category,
    }


def _rule(number: int, tools: Sequence[Tool]) -> str:
    """Returns a rule: each sixth one hides a category from a role, the others ask about calls."""
    if number % 6 == 0:
        category = tools[number * 100].category
        return (
            f'@id("hidden-{number}")\nforbid (principal in Role::"guest", action, resource in Category::"{category}");'
        )
    return (
        f'@id("large-{number}")\n@reason("more than {number} needs an approval")\n'
        f'forbid (principal, action == Action::"call_unasked", resource == Tool::"{tools[number].name}")\n'
        f"when {{ context.arguments has amount && context.arguments.amount > {number} }};"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    prepared(options.folder.resolve(), options.runs)


if __name__ == "__main__":
    main()
