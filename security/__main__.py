"""Plays attacks and power cuts against real processes: python -m security [NAME ...] [--quick] [--times N] [--corpora FOLDER]
[--json FILE]

`kills` prints how much was tried, and counts of damage, which must be 0. `hostile` prints for each hostile input the answer, the
longest wait of another client, and the growth of memory. `audit` changes the trail, and looks for planted secrets. The exit
status is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from security import (
    approvals,
    audit,
    authored,
    bot_injections,
    commands,
    dojo,
    files,
    hostile,
    hosts,
    injections,
    probes,
    programs,
    resumes,
    rogue_calls,
    serves,
    ssrf,
    worlds,
)


class Finding(Protocol):
    """One line of the report."""

    @property
    def wrong(self) -> bool | str: ...
    def line(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The size of a run."""

    quick: bool = False
    corpora: Path | None = None
    """Folder with hostile inputs; an attack that needs them says that it was skipped where it is None or lacks the file."""
    times: int | None = None
    """Number of kills of each kind. None: 200 of a server whose clients never retry, 50 of one whose clients retry with a key, 50
    of one that waits for the trail before it answers, and 150 of processes that resume runs; with `quick` a few of each."""


def kills(options: Options) -> Sequence[Finding]:
    """Kills processes with SIGKILL at random moments: a server with six clients that never retry, a server with six clients that
    send an idempotency key and retry, a server that waits for the trail before it answers, and processes that resume runs."""
    numbers = (5, 3, 3, 6) if options.quick else (200, 50, 50, 150)
    plain, keyed, durable, resumed = (options.times or number for number in numbers)
    return [
        *serves.killed(plain, keys=False, quick=options.quick, calls=100 * plain),
        *serves.killed(keyed, keys=True, quick=options.quick),
        *serves.killed(durable, keys=False, quick=options.quick, durable=True),
        *resumes.killed(resumed),
    ]


def audit_trail(options: Options) -> Sequence[Finding]:
    """Changes the audit trail at random, and plants secrets in everything that a run sees."""
    return audit.attacked(quick=options.quick)


def hostile_inputs(options: Options) -> Sequence[Finding]:
    """Sends inputs that are too large or too slow, and measures how long another client waits meanwhile."""
    return hostile.played(quick=options.quick)


def probes_of_the_wall(options: Options) -> Sequence[Finding]:
    """Runs programs in the sandbox that try to get out of it or to outlive it, and measures how long a command takes to start."""
    return probes.attacked(quick=options.quick)


def programs_of_models(options: Options) -> Sequence[Finding]:
    """Runs programs that try to leave the interpreter, measures what programs cost, and kills processes that put them away."""
    return programs.attacked(options.corpora, quick=options.quick)


def answers_of_people(options: Options) -> Sequence[Finding]:
    """Answers questions twice at once, uses approvals for other calls, and exchanges sources during a question."""
    return approvals.attacked(quick=options.quick)


def hidden_tools(options: Options) -> Sequence[Finding]:
    """Asks in random worlds for tools that a policy, a role, a scope, a tag or a bot hides."""
    return worlds.attacked(quick=options.quick)


def injected_instructions(options: Options) -> Sequence[Finding]:
    """Lets a model obey every instruction that strangers wrote into mails, files, reviews, bills, messages and pages."""
    return dojo.attacked(quick=options.quick)


def obeyed_texts(options: Options) -> Sequence[Finding]:
    """Puts texts with instructions into results, arguments, memories and descriptions, and lets a model act on them."""
    return injections.attacked(options.corpora, quick=options.quick)


def rogue_tools(options: Options) -> Sequence[Finding]:
    """Calls tools and servers that answer slowly, endlessly or with bombs, and measures how long other users wait."""
    return rogue_calls.attacked(quick=options.quick)


def commands_of_models(options: Options) -> Sequence[Finding]:
    """Runs dangerous commands under the shipped policy and as if approved, harmless ones, and some that never end."""
    return commands.attacked(options.corpora, quick=options.quick)


def files_of_models(options: Options) -> Sequence[Finding]:
    """Leads the file tools out of their folder by paths, links, devices and races, and asks for files with secrets."""
    return files.attacked(options.corpora, quick=options.quick)


def addresses_inside(options: Options) -> Sequence[Finding]:
    """Fetches addresses, names and redirects that lead inside, and harmless ones."""
    return ssrf.attacked(options.corpora, quick=options.quick)


def tools_of_bots(options: Options) -> Sequence[Finding]:
    """Writes hostile tools, shows and runs them, fills commands with hostile values, and changes approved tools."""
    return authored.attacked(options.corpora, quick=options.quick)


def demands_to_bots(options: Options) -> Sequence[Finding]:
    """Lets bots read texts that tell them to change, call, remember, delegate and set jobs, with a model that obeys."""
    return bot_injections.attacked(options.corpora, quick=options.quick)


def tools_of_hosts(options: Options) -> Sequence[Finding]:
    """Lets a hostile model call the tools of a whole machine, and looks for effects that the policy does not allow."""
    return hosts.attacked(options.corpora, quick=options.quick)


ATTACKS: Mapping[str, Callable[[Options], Sequence[Finding]]] = {
    "kills": kills,
    "audit": audit_trail,
    "hostile": hostile_inputs,
    "programs": programs_of_models,
    "probes": probes_of_the_wall,
    "approvals": answers_of_people,
    "worlds": hidden_tools,
    "injections": obeyed_texts,
    "dojo": injected_instructions,
    "rogues": rogue_tools,
    "commands": commands_of_models,
    "files": files_of_models,
    "ssrf": addresses_inside,
    "authored": tools_of_bots,
    "bots": demands_to_bots,
    "hosts": tools_of_hosts,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m security", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(ATTACKS)}; all without a name")
    parser.add_argument(
        "--quick", action="store_true", help="fewer kills and repetitions: a few minutes instead of an hour"
    )
    parser.add_argument("--corpora", type=Path, metavar="FOLDER", help="folder of hostile inputs")
    parser.add_argument("--times", type=int, metavar="N", help="number of kills of each kind")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the report to this file")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in ATTACKS]:
        parser.error(f"there is no attack {unknown[0]!r}; there are {', '.join(ATTACKS)}")
    if arguments.corpora is not None and not arguments.corpora.is_dir():
        parser.error(f"--corpora: there is no folder {arguments.corpora}")
    options = Options(quick=arguments.quick, times=arguments.times, corpora=arguments.corpora)
    findings: dict[str, Sequence[Finding]] = {}
    for name in arguments.names or ATTACKS:
        print(f"\n--- {name}", flush=True)
        findings[name] = ATTACKS[name](options)
        for finding in findings[name]:
            print(finding.line(), flush=True)
    if arguments.json is not None:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(findings)))
    if wrong := [finding for attack in findings.values() for finding in attack if finding.wrong]:
        print("\n--- missed goals of all attacks", *(finding.line() for finding in wrong), sep="\n", flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
