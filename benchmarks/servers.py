"""Starts the servers of the gateway benchmark, each in a process of its own: the upstream, the bare proxy, our gateway, litellm's
proxy."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.free_port import free_port
from toolcaddie.core.control import Principal
from toolcaddie.storage.database import Database

LITELLM = "litellm[proxy]==1.106.0"
"""Pinned. Never 1.82.7 or 1.82.8: those two releases were compromised."""

_ROOT = Path(__file__).parent.parent
_VENV = _ROOT / ".venv-litellm"
_START_SECONDS = 90.0
_INSTALL_SECONDS = 600.0
_LITELLM_CONFIG = """\
model_list:
  - model_name: bench
    litellm_params: {{model: openai/bench, api_base: "{upstream}", api_key: unused}}
litellm_settings: {{telemetry: false}}
"""


class NotAvailableError(Exception):
    """A server cannot be installed or started on this machine; the message is the reason, in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server. `base_url` ends in /v1."""

    name: str
    base_url: str
    pid: int
    headers: Mapping[str, str]
    """Headers that the client sends with every request."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """API keys by tenant."""

    def cpu_seconds(self) -> float:
        """Returns the CPU time of the process so far, of all its threads (the kernel's clock of that process)."""
        return time.clock_gettime((~self.pid << 3) | 2)


@contextlib.contextmanager
def upstream(delay: float = 0.0) -> Iterator[Server]:
    """Starts the upstream of all other servers: canned answers at nearly no cost, after `delay` seconds."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.upstream", "--port", str(port), "--delay", str(delay)]
    with _started("upstream", command, port, {}) as server:
        yield server


@contextlib.contextmanager
def bare_proxy(target: str) -> Iterator[Server]:
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.bare_proxy", "--upstream", target, "--port", str(port)]
    with _started("bare proxy", command, port, {}) as server:
        yield server


@contextlib.contextmanager
def toolcaddie(
    target: str = "",
    *,
    tree: Path = _ROOT,
    model: str = "",
    workers: int = 1,
    before: Sequence[str] = (),
    options: Sequence[str] = (),
    key: Sequence[str] | None = None,
    tenants: Sequence[str] = (),
) -> Iterator[Server]:
    """Starts `toolcaddie serve` of the checkout `tree` with default settings and its trail in a new SQLite file. `target`: the
    upstream; empty: the practice model answers. `model`: the provider and model behind it; empty: a server of chat completions.
    `workers`: the number of processes that answer. `before` and `options`: further options of `toolcaddie` and of `serve`.
    `key`: options of `toolcaddie keys add`, if the requests have an API key. `tenants`: tenants that get a key each; the server
    is asked with the key of the first one."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/bench.sqlite"
        command = [str(python_of(tree)), "-m", "toolcaddie", *before, "serve", "--port", str(port)]
        command += ["--database-url", database, *options]
        command += [*(("--upstream", target) if target else ()), *(("--model", model) if model else ())]
        command += ["--workers", str(workers)] if workers > 1 else []
        secret = "" if key is None else _added_key(tree, database, key)
        secrets_of = asyncio.run(_added_tenants(database, tenants)) if tenants else {}
        secret = secret or next(iter(secrets_of.values()), "")
        with _started("toolcaddie", command, port, {"PYTHONPATH": str(tree)}, key=secret, folder=tree) as server:
            yield replace(server, secrets=secrets_of)


def _added_key(tree: Path, database: str, options: Sequence[str]) -> str:
    """Adds an API key to a database, and returns it."""
    command = [
        str(python_of(tree)),
        "-m",
        "toolcaddie",
        "keys",
        "add",
        "bench",
        "--database-url",
        database,
        "--json",
        *options,
    ]
    return str(json.loads(subprocess.run(command, capture_output=True, check=True, cwd=tree).stdout)["secret"])


async def _added_tenants(url: str, tenants: Sequence[str]) -> Mapping[str, str]:
    """Adds a key for each tenant to a new database, and returns the keys."""
    async with Database(url) as database:
        added = [await database.keys.add(name, Principal(id=name, tenant=name)) for name in tenants]
        return dict(zip(tenants, (secret for _, secret in added), strict=True))


@contextlib.contextmanager
def litellm(target: str) -> Iterator[Server]:
    """Starts litellm's proxy with one worker and no database.

    Raises `NotAvailableError` if it cannot be installed or started.
    """
    _install_litellm()
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(_LITELLM_CONFIG.format(upstream=target))
        command = [str(_VENV / "bin" / "litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
        key = f"sk-{secrets.token_hex(32)}"  # litellm does not start without a key
        settings = {"LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": key}
        with _started("litellm", [*command, "--telemetry", "False"], port, settings, key=key) as server:
            yield server


def python_of(tree: Path) -> Path:
    """Returns the path of the Python to use for a checkout: the one in its .venv, or the running one."""
    own = tree / ".venv" / "bin" / "python"
    return own if own.exists() else Path(sys.executable)


def _install_litellm() -> None:
    if (_VENV / "bin" / "litellm").exists():
        return
    print(f"installing {LITELLM} into {_VENV.name} ...", file=sys.stderr, flush=True)
    steps = ([sys.executable, "-m", "venv", str(_VENV)], [str(_VENV / "bin" / "pip"), "install", "--quiet", LITELLM])
    for step in steps:
        try:
            made = subprocess.run(step, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise NotAvailableError(f"installing it took longer than {_INSTALL_SECONDS:.0f} s") from None
        if made.returncode:
            errors = [line for line in made.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
            raise NotAvailableError(f"it cannot be installed: {errors[-1][:200]}")


@contextlib.contextmanager
def _started(
    name: str, command: list[str], port: int, environment: Mapping[str, str], *, key: str = "", folder: Path = _ROOT
) -> Iterator[Server]:
    """Starts a server with `folder` as its working directory, so that `python -m` imports from there first."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("TOOLCADDIE_", "OPENAI_"))}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, env={**inherited, **environment}, stdout=output, stderr=output, cwd=folder)
        try:
            headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
            server = Server(name=name, base_url=f"http://127.0.0.1:{port}/v1", pid=process.pid, headers=headers)
            if not _answers(server, process):
                output.seek(0)
                words = output.read().decode(errors="replace").split()
                raise NotAvailableError(f"it did not start: {' '.join(words)[-300:]}")
            yield server
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _answers(server: Server, process: subprocess.Popen[bytes]) -> bool:
    """Waits until the server lists its models. Returns True then, or False if it does not in time."""
    until = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        request = urllib.request.Request(f"{server.base_url}/models", headers=dict(server.headers))
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=10) as answer:
            return bool(answer.status == 200)
        time.sleep(0.2)
    return False
