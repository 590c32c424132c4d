"""Exchanges a folder for a link that leads out of the base, as fast as the kernel can, while files are read and written.

    python -m security.file_swaps FOLDER

exchanges `sub` with `link`, and `file` with `file-link`, until its standard input is closed, and prints how often.
"""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from security.file_places import Place, place
from security.goals import Goal, none_of
from toolcaddie.guards.openat2 import rename
from toolcaddie.guards.paths import Folder, PathError
from toolcaddie.testing.part_contracts.subject import context
from toolcaddie.tools.files import files

_INSIDE = b"inside\n"
_AT_ONCE = 1_000


def raced(rounds: int, *, tool_rounds: int) -> Sequence[Goal]:
    """Returns the goals of the race: `rounds` with the opener itself, `tool_rounds` with the tools."""
    with place(memory=True, depth=1) as where:
        _prepare(where)
        before = where.outside_state()
        with _swapping(where) as swaps:
            outcomes = _rounds(where, rounds)
            outcomes += asyncio.run(_tool_rounds(where, tool_rounds))
        after = where.outside_state()
    total = rounds + tool_rounds
    print(
        f"{total:,} rounds against {swaps[0]:,} exchanges: {outcomes['done']:,} done inside, {outcomes['refused']:,} refused"
    )
    changed = len({*before.items()} ^ {*after.items()})
    return [
        none_of("rounds of a swapped link that read bytes outside of the base", outcomes["outside"], total),
        none_of("files outside of the base that these rounds made or changed", changed, len(before)),
        Goal(
            name="rounds in which both happened: a call that was done, and one that met the link",
            figure=f"{outcomes['done']:,} and {outcomes['refused']:,}",
            goal="more than 0",
            met=outcomes["done"] > 0 and outcomes["refused"] > 0,
        ),
    ]


def _prepare(where: Place) -> None:
    base, outside = where.base, where.outside
    (base / "sub").mkdir()
    (base / "link").symlink_to(outside)
    (base / "file-link").symlink_to(outside / "secret")
    for file in (base / "file", base / "sub" / "secret", base / "sub" / "changed"):
        file.write_bytes(_INSIDE)
    (outside / "changed").write_bytes(f"{where.canary} outside\n".encode())


@contextmanager
def _swapping(where: Place) -> Iterator[list[int]]:
    """Exchanges in another process. The list has their number afterwards."""
    count = [0]
    process = subprocess.Popen(
        [sys.executable, "-m", "security.file_swaps", str(where.base)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield count
    finally:
        output, _ = process.communicate()
        count[0] = int(output or 0)


def _rounds(where: Place, rounds: int) -> Counter[str]:
    """Reads, writes and edits with the opener. Of eight rounds, six read, one writes and one edits."""
    folder = Folder(where.base)
    steps: Sequence[Callable[[], bytes | str | None]] = (
        lambda: folder.read("sub/secret", most=1_000),
        lambda: folder.read("file", most=1_000),
        lambda: folder.read("link/secret", most=1_000),
        lambda: folder.write("sub/secret", _INSIDE),
        lambda: folder.read("sub/../sub/secret", most=1_000),
        lambda: folder.read("file-link", most=1_000),
        lambda: folder.read("sub/changed", most=1_000),
        lambda: folder.replace("sub/changed", _INSIDE, before=_INSIDE),
    )
    outcomes: Counter[str] = Counter()
    for number in range(rounds):
        try:
            content = steps[number % len(steps)]()
        except PathError:
            outcomes["refused"] += 1
            continue
        outcomes["done" if isinstance(content, str) or content in (None, _INSIDE) else "outside"] += 1
    return outcomes


async def _tool_rounds(where: Place, rounds: int) -> Counter[str]:
    """The same with the tools, as a model would call them after all questions were answered."""
    source = files(base_path=str(where.base))
    tools = {tool.name: tool for tool in source.tools()}
    calls = (
        ("file_read", {"path": "sub/secret"}),
        ("file_read", {"path": "file"}),
        ("file_write", {"path": "sub/secret", "content": _INSIDE.decode()}),
        ("file_edit", {"path": "sub/changed", "old_text": "inside", "new_text": "inside "}),
    )
    outcomes: Counter[str] = Counter()
    for number in range(rounds):
        name, arguments = calls[number % len(calls)]
        judged = await source.assess(tools[name], dict(arguments), context())
        result = await source.call_tool(tools[name], dict(arguments), context())
        seen = judged.preview + judged.refusal + result.text
        outcomes["outside" if where.canary in seen else "refused" if result.is_error else "done"] += 1
    return outcomes


def main(folder: str) -> None:
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    print(flush=True)
    count = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(_AT_ONCE):
            rename(descriptor, "sub", "link", how="exchange")
            rename(descriptor, "file", "file-link", how="exchange")
        count += 2 * _AT_ONCE
    print(count, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
