"""Tests the steps of the Dockerfile in a clean Debian root, for machines without Docker. `make image-test` runs it, as root.

It makes the root with `mmdebstrap`, runs `packaging/install.sh` there, and starts the server as the Dockerfile says: its user,
folder, variables, command and health check. Then a client with a key asks, one without a key is refused, and SIGTERM ends the
server.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[1]
_HOST_FILES = ("/etc/resolv.conf", "/etc/pip.conf")
"""Files by which this machine reaches package registries. The root gets copies of them and of its own certificates."""
_PORT = 18_321
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The instructions of the Dockerfile that say how the image runs."""

    suite: str
    user: str
    folder: str
    variables: dict[str, str]
    command: list[str]
    health: list[str]


def read_image(dockerfile: str) -> Image:
    """Returns the instructions of a Dockerfile whose commands are JSON lists."""
    lines = [line.split(maxsplit=1) for line in dockerfile.splitlines() if line and not line.startswith("#")]
    values = {name: value for name, value in lines if name != "ENV"}
    health = values["HEALTHCHECK"].partition("CMD ")[2]
    return Image(
        suite=re.fullmatch(r"debian:(\w+)-slim", values["FROM"])[1],  # type: ignore[index]
        user=values["USER"],
        folder=values["WORKDIR"],
        variables=dict(value.split("=", 1) for name, value in lines if name == "ENV"),
        command=json.loads(values["ENTRYPOINT"]) + json.loads(values["CMD"]),
        health=json.loads(health),
    )


class Root:
    """A clean Debian root in a folder."""

    def __init__(self, folder: Path, suite: str) -> None:
        self.folder = folder
        _progress(f"a clean Debian ({suite})")
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", suite, folder], check=True)
        certificates = Path("/usr/local/share/ca-certificates").glob("*.crt")
        for file in (*map(Path, _HOST_FILES), *certificates):
            if file.exists():
                place = folder / file.relative_to("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, place)

    def install(self, checkout: Path) -> None:
        """Copies the files that Docker would see (`.dockerignore`) into the root, and runs the steps of the Dockerfile there."""
        _progress("packaging/install.sh")
        allowed = [line[1:] for line in (checkout / ".dockerignore").read_text().splitlines() if line.startswith("!")]
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *allowed]
        names = subprocess.run(command, cwd=checkout, check=True, capture_output=True, text=True).stdout
        for name in names.splitlines():
            place = self.folder / "checkout" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(checkout / name, place)
        self.run(["sh", "/checkout/packaging/install.sh", "/checkout"])
        shutil.rmtree(self.folder / "checkout")

    def run(self, words: Sequence[str]) -> str:
        """Runs a command as root. Returns its output."""
        done = subprocess.run(["chroot", self.folder, *words], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{shlex.join(words)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        return done.stdout

    def words(self, image: Image, command: Sequence[str]) -> list[str]:
        """Returns the command line that runs a command as the image does: its user, its folder, its variables."""
        variables = [f"{name}={value}" for name, value in image.variables.items()]
        script = f"cd {shlex.quote(image.folder)} && exec {shlex.join(command)}"
        path = "PATH=/usr/local/bin:/usr/bin:/bin"
        return [
            *("chroot", f"--userspec={image.user}:{image.user}", str(self.folder)),
            *("env", "--ignore-environment", path, *variables, "sh", "-c", script),
        ]

    def as_image(self, image: Image, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.words(image, command), capture_output=True, text=True)


def main() -> None:
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        sys.exit("image-test needs root and the Debian package mmdebstrap")
    image = read_image((CHECKOUT / "Dockerfile").read_text())
    image.variables["TOOLCADDIE_SERVER_PORT"] = str(_PORT)
    health = [word.replace(":8321/", f":{_PORT}/") for word in image.health]
    with tempfile.TemporaryDirectory() as folder:
        root = Root(Path(folder), image.suite)
        root.install(CHECKOUT)
        _check_refusals(root, image)
        _check_server(root, image, health)
    _progress("the image works")


def _check_refusals(root: Root, image: Image) -> None:
    _progress("without a key it refuses to listen to other machines")
    refusal = root.as_image(image, image.command)
    _expect(refusal.returncode != 0 and "toolcaddie keys add" in refusal.stderr, refusal.stderr)
    _progress("outside its folder it can write nothing")
    written = root.as_image(image, ["touch", "/opt/toolcaddie/file"])
    _expect(written.returncode != 0, "the user may write to /opt/toolcaddie")


def _check_server(root: Root, image: Image, health: Sequence[str]) -> None:
    made = root.as_image(image, ["toolcaddie", "keys", "add", "test", "--json"])
    _expect(made.returncode == 0, made.stderr)
    key = json.loads(made.stdout)["secret"]
    _progress("the server, its health check and an answer")
    command = [*image.command, "--catalog", "gym"]
    server = subprocess.Popen(root.words(image, command), stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        server.stdout.readline()  # printed once the server listens
        checked = root.as_image(image, health)
        _expect(checked.returncode == 0, checked.stderr)
        _expect(_status(None) == 401, "a request without a key is not refused")
        _expect(_status(key) == 200, "a request with a key is not answered")
        server.send_signal(signal.SIGTERM)
        _expect(server.wait(_PATIENCE) == 0, "the server did not end with 0 after SIGTERM")
    finally:
        server.kill()
        server.wait()
    data = root.folder / image.folder.strip("/")
    _expect(any(data.rglob("*.sqlite")), f"nothing is stored in {image.folder}")


def _status(key: str | None) -> int:
    """Returns the status of a request that calls a tool of the gym."""
    body: dict[str, Any] = {"model": "practice", "messages": [{"role": "user", "content": "freeze John's membership"}]}
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    url = f"http://127.0.0.1:{_PORT}/v1/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"failed: {otherwise}")


def _progress(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


if __name__ == "__main__":
    main()
