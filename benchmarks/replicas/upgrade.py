"""An upgrade under load: python -m benchmarks.replicas.upgrade COMMIT [--rate 50] [--seconds 20]

Two servers of the version at COMMIT, on a database that this version made, answer a steady load behind nginx. One after the other
is stopped with SIGTERM and started again in the version of this checkout. The exit code is 1 if a client saw an error, an
effect is missing or happened twice, or the trail does not verify.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.replicas.load import Load
from benchmarks.replicas.model import Model
from benchmarks.replicas.verdict import Verdict
from benchmarks.replicas.world import ROOT, World
from toolcaddie.testing import ScriptedUpstream


async def run(commit: str, rate: float, seconds: float) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="toolcaddie-upgrade-") as folder,
        _checkout(Path(folder) / "old", commit) as old,
        ScriptedUpstream(Model(0.0), api_key="test-key") as upstream,
    ):
        world = World(Path(folder), upstream.base_url, checkout=old, TOOLCADDIE_SERVER_DRAIN="1")
        try:
            world.start()
            load = Load(world.address, rate)
            loading = asyncio.create_task(load.run())
            await asyncio.sleep(seconds)
            for replica in world.replicas:
                await asyncio.to_thread(replica.stop)
                replica.checkout = ROOT
                await asyncio.to_thread(replica.start)
                await asyncio.sleep(seconds)
            load.stop()
            verdict = Verdict(await loading, world)
            verdict.show()
            return int(not verdict.is_good)
        finally:
            world.end()


@contextmanager
def _checkout(folder: Path, commit: str) -> Iterator[Path]:
    """Yields a folder with the files of a commit."""
    subprocess.run(["git", "worktree", "add", "--detach", "--quiet", str(folder), commit], cwd=ROOT, check=True)
    try:
        yield folder
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(folder)], cwd=ROOT, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="the version from which to upgrade")
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of each phase")
    arguments = parser.parse_args()
    sys.exit(asyncio.run(run(arguments.commit, arguments.rate, arguments.seconds)))


if __name__ == "__main__":
    main()
