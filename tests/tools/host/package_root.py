"""A folder that is the root of a system with packages of its own, and a repository for it.

Nothing of this machine changes: apt and dpkg are real, their state is in the folder, and the packages contain nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tools.host.hosting_state import StateHost, state_host
from toolcaddie.tools.host.states.packagekit import PackagesPlugin, packagekit

_PROGRAMS = ("apt-get", "apt-cache", "dpkg", "dpkg-deb", "dpkg-scanpackages")
APT = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, _PROGRAMS)),
    reason="needs root, apt, dpkg and dpkg-dev (dpkg-scanpackages)",
)
_FOLDERS = (
    "var/lib/dpkg/info",
    "var/lib/dpkg/updates",
    "var/lib/dpkg/triggers",
    "var/lib/apt/lists/partial",
    "var/cache/apt/archives/partial",
    "var/log/apt",
    "etc/apt/apt.conf.d",
    "etc/apt/preferences.d",
    "etc/apt/sources.list.d",
    "etc/apt/trusted.gpg.d",
)
_CONFIGURATION = """
Dir "{root}";
Dir::State::status "{root}/var/lib/dpkg/status";
Dir::Bin::methods "/usr/lib/apt/methods";
Dir::Bin::dpkg "/usr/bin/dpkg";
DPkg::Options {{ "--root={root}"; "--log={root}/var/log/dpkg.log"; }};
"""
_OWN_SETTINGS = """
APT::Sandbox::User "root";
Acquire::Languages "none";
DPkg::Options:: "--force-unsafe-io";
"""


@dataclass(frozen=True, slots=True)
class PackageRoot:
    """Make it with `made`."""

    folder: Path

    @staticmethod
    def made(folder: Path) -> PackageRoot:
        root = PackageRoot(folder)
        for name in _FOLDERS:
            (root.path / name).mkdir(parents=True)
        for name in ("status", "available"):
            (root.path / "var/lib/dpkg" / name).touch()
        root.repository.mkdir()
        root.configuration.write_text(_CONFIGURATION.format(root=root.path) + _OWN_SETTINGS)
        (root.path / "etc/apt/apt.conf.d/own").write_text(_OWN_SETTINGS)
        (root.path / "etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{root.repository} ./\n")
        return root

    @staticmethod
    def stocked(folder: Path) -> PackageRoot:
        """Returns a root whose repository has packages that need and exclude each other."""
        root = PackageRoot.made(folder)
        root.add("alpha", "1.0")
        root.add("alpha", "1:2.0~rc1+b1")
        root.add("beta", "2.0", Depends="gamma")
        root.add("beta-tools", "2.0", Depends="beta")
        root.add("gamma", "3.0")
        root.add("needs-alpha", "1.0", Depends="alpha")
        root.add("anti-alpha", "1.0", Conflicts="alpha")
        root.add("base-os", "1.0", Essential="yes")
        root.publish()
        return root

    @property
    def path(self) -> Path:
        return self.folder / "root"

    @property
    def repository(self) -> Path:
        return self.folder / "repository"

    @property
    def configuration(self) -> Path:
        """The configuration of apt with which programs use this root."""
        return self.folder / "apt.conf"

    def add(self, name: str, version: str = "1.0", **fields: str) -> None:
        """Adds a package to the repository; `publish` makes it known. `fields`: more of its control file."""
        self._build(name, version, fields, self.repository)

    def publish(self) -> None:
        run = subprocess.run(
            ["dpkg-scanpackages", "-m", "."], cwd=self.repository, check=True, capture_output=True, text=True
        )
        (self.repository / "Packages").write_text(run.stdout)
        (self.repository / "Release").write_text("Origin: Shelf\nLabel: Shelf\nSuite: stable\nCodename: stable\n")
        for path in (self.path / "var/lib/apt/lists").glob(
            "*_*"
        ):  # of the same second, so apt would think it is the same
            path.unlink()
        self._run("apt-get", "update")

    def install(self, *names: str) -> None:
        """Installs packages as somebody else would."""
        self._run("apt-get", "-y", "install", "--", *names)

    def install_file(self, name: str, version: str = "1.0") -> None:
        """Installs a package that no repository has."""
        folder = self.folder / "files"
        folder.mkdir(exist_ok=True)
        path = self._build(name, version, {}, folder)
        self._run("dpkg", f"--root={self.path}", f"--log={self.path}/var/log/dpkg.log", "-i", str(path))

    def versions(self) -> dict[str, str]:
        """Returns the installed packages as dpkg shows them."""
        text = self._run("dpkg-query", f"--admindir={self.path}/var/lib/dpkg", "-W", "-f", "${Package} ${Version}\\n")
        return dict(line.split() for line in text.splitlines())

    def _build(self, name: str, version: str, fields: dict[str, str], place: Path) -> Path:
        folder = self.folder / "build" / f"{name}-{version}" / "DEBIAN"
        folder.mkdir(parents=True)
        own = {"Package": name, "Version": version, "Architecture": "all", "Maintainer": "A <a@example.org>"}
        lines = {**own, **fields, "Description": "nothing"}
        (folder / "control").write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
        path = place / f"{name}_{version}_all.deb"
        subprocess.run(["dpkg-deb", "-b", str(folder.parent), str(path)], check=True, capture_output=True)
        return path

    def _run(self, *argv: str) -> str:
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "APT_CONFIG": str(self.configuration)}
        run = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr + run.stdout
        return run.stdout


PATTERNS = ("alpha", "beta*", "base-os", "homemade", "anti-alpha", "gone")
"""The packages of the settings in tests of a stocked root."""


def made(root: PackageRoot, *patterns: str) -> PackagesPlugin:
    """Returns the plugin for a root. `patterns`: the packages that it may change; none: `PATTERNS`."""
    return packagekit(packages=patterns or PATTERNS, manager="apt", root=str(root.path))


@asynccontextmanager
async def package_host(root: PackageRoot) -> AsyncIterator[StateHost]:
    """Yields a runtime with the plugin for a root."""
    settings = {"packages": list(PATTERNS), "manager": "apt", "root": str(root.path)}
    async with state_host("packagekit", packagekit, settings) as host:
        yield host
