"""Random states of each state plugin, against its real back end: python -m benchmarks.hosts_states [--states 200] [PLUGIN ...]

For each state: query, diff, apply and query give it; a second apply does nothing; the first difference is refused, because its
base has changed; undoing leads back; a dry run changes nothing. The tests of the plugins do this for fewer states, in network
namespaces, with a daemon of their own, or over a folder in place of `/`; here they run with more, several at the same time.
The exit code is 1 if a promise is broken or states are missing. A plugin whose back end cannot run here is skipped, with the
reason.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from msgspec import Struct

from toolcaddie.tools.host.source import PLUGINS

_ROOT = Path(__file__).parents[1]
_LANES = 3
"""Checks at the same time: one more than a small machine has cores, because PackageKit mostly waits."""
_SECONDS = 3_600
_LAST_LINES = 25
CHECKS: Mapping[str, str] = {
    "packagekit by D-Bus": "packages_packagekit.py::TestTheRealDaemon::test_random_states_are_reached_and_left_again",
    "packagekit by apt": "packages_apt.py::test_random_states_are_reached_and_left_again",
    "firewall": "firewall.py::test_random_rules_are_reached_and_left_again",
    "privacy": "privacy.py::test_random_profiles_are_reached_and_left_again",
    "network": "network.py::test_random_states_are_reached_and_left_again",
    "systemd": "systemd_plugin.py::test_any_desired_state_is_reached_and_undone",
    "storage": "storage.py::test_mounts_are_changed_and_undone_in_a_namespace_of_their_own",
    "users": "users.py::test_random_states_are_reached_and_left_again",
    "openflow": "openflow.py::test_random_states_are_reached_and_left_again",
    "lxc": "lxc.py::test_random_states_are_reached_and_left_again",
}
"""The test of each plugin, and of both back ends of packagekit. The slowest are first, so that none runs alone at the end."""


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of one check."""

    states: int
    seconds: float
    skipped: str
    """The reason; empty: it was not skipped."""
    failure: str
    """The last lines of the test; empty: it passed."""


def checked(test: str, states: int) -> Outcome:
    """Runs a test with this many states."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts"
        command = [sys.executable, "-m", "pytest", "-rs", "-o", f"timeout={_SECONDS}", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, f"--basetemp={folder}/tests", f"tests/tools/host/test_{test}"],
            cwd=_ROOT,
            env={**os.environ, "TOOLCADDIE_HOST_EXAMPLES": str(states), "TOOLCADDIE_HOST_COUNTS": str(counts)},
            capture_output=True,
            text=True,
            check=False,
        )
        count = sum(map(int, counts.read_text().split())) if counts.exists() else 0
    skipped = re.search(r"^SKIPPED.*?: (.*)$", done.stdout, re.MULTILINE)
    return Outcome(
        states=count,
        seconds=time.monotonic() - began,
        skipped="" if skipped is None else skipped[1],
        failure="\n".join((done.stdout + done.stderr).splitlines()[-_LAST_LINES:]) if done.returncode else "",
    )


def line(outcome: Outcome, states: int) -> str:
    """Returns the outcome as people read it."""
    if outcome.skipped:
        return f"skipped: {outcome.skipped}"
    words = f"a promise is broken:\n{outcome.failure}" if outcome.failure else "all promises hold"
    return f"{outcome.states} random states (goal: {states}), {words} ({outcome.seconds:.0f} s)"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=200)
    parser.add_argument("plugins", nargs="*", metavar="PLUGIN", help=f"some of {', '.join(PLUGINS)}")
    options = parser.parse_args(arguments)
    if unknown := sorted({*options.plugins} - {*PLUGINS}):
        parser.error(f"there is no plugin {unknown[0]}; there are: {', '.join(PLUGINS)}")
    plugins = options.plugins or PLUGINS
    tests = {name: test for name, test in CHECKS.items() if name.split()[0] in plugins}
    missed, skipped = list[str](), set[str]()
    with ThreadPoolExecutor(_LANES) as pool:
        running = {pool.submit(checked, test, options.states): name for name, test in tests.items()}
        for done in as_completed(running):
            name, outcome = running[done], done.result()
            print(f"{name}: {line(outcome, options.states)}", flush=True)
            if outcome.skipped:
                skipped.add(name)
            elif outcome.failure or outcome.states < options.states:
                missed.append(name)
    proved = {name.split()[0] for name in tests if name not in {*missed, *skipped}}
    print(f"plugins that keep their promises: {len(proved)} of {len(plugins)}" + _list("missed", missed))
    return 1 if missed else 0


def _list(words: str, names: Sequence[str]) -> str:
    return f"; {words}: {', '.join(names)}" if names else ""


if __name__ == "__main__":
    sys.exit(main())
