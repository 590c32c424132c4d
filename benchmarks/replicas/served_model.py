"""The scripted model as a process of its own, so that its CPU is told from that of the clients.

python -m benchmarks.replicas.served_model prints its address, and ends when its standard input does.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.replicas.model import Model
from toolcaddie.testing import ScriptedUpstream


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A running model."""

    base_url: str
    pid: int


@contextmanager
def served_model() -> Iterator[ServedModel]:
    """Runs the model until the block ends. None of its answers is a fault."""
    command = [sys.executable, "-m", "benchmarks.replicas.served_model"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield ServedModel(base_url=process.stdout.readline().strip(), pid=process.pid)
        process.stdin.close()


class _Forgetful(Model):
    """Keeps no requests, which would grow without end."""

    upstream: ScriptedUpstream

    def __call__(self, body):  # type: ignore[no-untyped-def]
        self.upstream.requests.clear()
        return super().__call__(body)


def main() -> None:
    model = _Forgetful(0.0)
    with ScriptedUpstream(model, api_key="test-key") as upstream:
        model.upstream = upstream
        print(upstream.base_url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
