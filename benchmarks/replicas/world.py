"""The world of a test: PostgreSQL, two servers of Toolcaddie, and nginx with the shipped settings before them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
import psutil

from benchmarks.replicas.many_tools import COUNT
from benchmarks.replicas.postgres import Postgres
from benchmarks.replicas.tools import EFFECTS
from tests.free_port import free_port

ROOT = Path(__file__).parents[2]
_NGINX = ROOT / "packaging" / "replicas" / "nginx.conf"
_PATIENCE = 60.0
_LOOK = 0.05


class Replica:
    """One server of Toolcaddie. `checkout`: the folder of the version that it runs."""

    def __init__(self, folder: Path, port: int, environ: dict[str, str], *, checkout: Path = ROOT) -> None:
        self.port = port
        self.checkout = checkout
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder / "server.log"
        self._folder = folder
        self._environ = environ
        folder.mkdir(exist_ok=True)

    def start(self) -> None:
        """Starts the server, and waits until it is ready."""
        command = [sys.executable, "-m", "toolcaddie", "serve", "--json", "--port", str(self.port)]
        command += ["--catalog", "python:benchmarks.replicas.tools", "--model", "gpt-test"]
        if COUNT in self._environ:
            command += ["--catalog", "python:benchmarks.replicas.many_tools:source"]
        path = os.pathsep.join((str(self.checkout), str(ROOT)))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self._folder,
                env={**os.environ, **self._environ, "PYTHONPATH": path},
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        self.wait()

    def wait(self) -> None:
        """Waits until the server is ready."""
        assert self.process is not None
        deadline = time.monotonic() + _PATIENCE
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start: {self.log.read_text()[-2000:]}")
            time.sleep(_LOOK)

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/readyz", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def send(self, kind: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(kind)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """Stops the server in an orderly way."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(_PATIENCE)
        self.process = None

    def uses(self) -> tuple[int, int]:
        """Returns the bytes of memory and the open files of the server."""
        assert self.process is not None
        process = psutil.Process(self.process.pid)
        return process.memory_info().rss, process.num_fds()

    def cpu(self) -> float:
        """Returns the seconds of CPU that the server has used."""
        assert self.process is not None
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system


class World:
    """PostgreSQL, `count` servers and nginx, below `folder`. `upstream`: the address of the model."""

    def __init__(self, folder: Path, upstream: str, *, count: int = 2, checkout: Path = ROOT, **environ: str) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.effects = folder / "effects"
        self.effects.touch()
        self.postgres = Postgres(free_port())
        self.address = f"http://127.0.0.1:{free_port()}"
        common = {
            "TOOLCADDIE_DATABASE_URL": self.postgres.url,
            "TOOLCADDIE_UPSTREAM_URL": upstream,
            "OPENAI_API_KEY": "test-key",
            EFFECTS: str(self.effects),
            "TOOLCADDIE_BOUNDS_CONNECTIONS": "4000",  # as in packaging/replicas
            **environ,
        }
        self.replicas = [
            Replica(folder / f"replica-{number}", free_port(), common, checkout=checkout)
            for number in range(1, count + 1)
        ]
        self._nginx: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts everything, the database first."""
        self.postgres.start()
        for replica in self.replicas:
            replica.start()
        self._start_nginx()

    def end(self) -> None:
        """Ends everything at once."""
        if self._nginx is not None:
            self._nginx.terminate()
            self._nginx.wait()
        for replica in self.replicas:
            if replica.process is not None:
                replica.send(signal.SIGCONT)
            replica.kill()
        self.postgres.remove()

    @property
    def pids(self) -> Mapping[str, Sequence[int]]:
        """Returns the first process of each program, by the kind of program."""
        assert self._nginx is not None
        servers = [replica.process.pid for replica in self.replicas if replica.process is not None]
        return {"nginx": [self._nginx.pid], "servers": servers, "database": [self.postgres.pid]}

    def cpu(self) -> float:
        """Returns the seconds of CPU that the servers of Toolcaddie have used."""
        return sum(replica.cpu() for replica in self.replicas)

    def _start_nginx(self) -> None:
        program = shutil.which("nginx")
        if program is None:
            raise SystemExit("nginx is missing; install the package nginx-light, or run `make host-programs`")
        settings = _NGINX.read_text()
        servers = [f"server 127.0.0.1:{replica.port} max_fails=0;" for replica in self.replicas]
        lines = [line for line in settings.splitlines() if not line.strip().startswith("server ") or "{" in line]
        text = "\n".join(lines).replace("least_conn;", "least_conn;\n" + "\n".join(servers))
        text = text.replace("listen 8080;", f"listen {self.address.removeprefix('http://')};")
        folder = self.folder / "nginx"
        folder.mkdir()
        places = "".join(
            f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        text = text.replace("http {", f"http {{\naccess_log off;\n{places}")
        text = text.replace("worker_processes auto;", "worker_processes 1;")
        user = "user root;\n" if os.geteuid() == 0 else ""
        file = folder / "nginx.conf"
        file.write_text(f"{user}daemon off;\npid {folder}/pid;\nerror_log {folder}/error.log;\n{text}")
        self._nginx = subprocess.Popen([program, "-c", file, "-p", folder, "-e", folder / "error.log"])
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                httpx.get(f"{self.address}/healthz", timeout=5)
                return
            except httpx.HTTPError:
                if self._nginx.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"nginx did not start: {(folder / 'error.log').read_text()[-2000:]}") from None
                time.sleep(_LOOK)
