"""Hostile inputs of other people, as arguments of the tools of a host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from security.corpora import texts_of
from security.host_calls import Case, one
from security.host_kinds import noted
from security.host_requests import place
from security.host_world import World


def corpus_cases(world: World, corpora: Path | None, *, step: int) -> Sequence[Case]:
    """Returns the cases. `step`: one of so many lines is played."""

    def lines(name: str) -> Sequence[str]:
        return [*(texts_of(corpora, name) or ())[::step]]

    return [
        *_paths(world, lines("path_traversal.txt")),
        *_arguments(lines("shell_injection.txt")),
        *_commands(lines("dangerous_commands.txt")),
        *noted(world, lines("prompt_injection.jsonl")),
    ]


def _paths(world: World, texts: Sequence[str]) -> Iterator[Case]:
    for number, text in enumerate(texts):
        path = f"{place('{written}', world)}/{text}"
        match number % 3:
            case 0:
                yield Case(kind="corpus: paths", turns=one("read_file", path=path))
            case 1:
                yield Case(kind="corpus: paths", turns=one("write_file", path=path, content="evil\n"))
            case _:
                yield Case(kind="corpus: paths", turns=one("list_directory", path=path))


def _arguments(texts: Sequence[str]) -> Iterator[Case]:
    for number, text in enumerate(texts):
        turns = (
            one("shell_execute", command="echo", args=[text]),
            one("systemd_stop_unit", unit=text),
            one("ovs_del_bridge", bridge=text),
            one("ovs_add_port", bridge="br1", port=text),
            one("ovs_add_flow", bridge="br1", flow=text),
            one("plugin_users_diff", desired_state={text: {"uid": 40099}}),
        )
        yield Case(kind="corpus: arguments", turns=turns[number % len(turns)])


def _commands(texts: Sequence[str]) -> Iterator[Case]:
    for text in texts:
        turns = one("shell_execute", command="sh", args=["-c", text], timeout_secs=3)
        yield Case(kind="corpus: commands", turns=turns)
