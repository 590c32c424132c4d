"""A hostile model over the tools of a host: hostile names, paths, flows, differences, commands and texts of strangers, on a whole
small machine in namespaces of its own, whose state is compared from outside.

It is played under a policy that allows reading and asks for the rest, with a person who approves nothing, and under one that
allows listed effects only. Nothing else may change. Under a policy that allows everything, with a person who approves everything,
most kinds of attack must have an effect in an honest form: otherwise they ask for nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from security.goals import Goal

_OWN = ("unshare", "--mount", "--net", "--propagation", "private")


def attacked(corpora: Path | None, *, quick: bool) -> Sequence[Goal]:
    """Plays the cases in namespaces of their own. The goal is missed where this machine cannot run the attack."""
    if reason := missing():
        return [not_played(reason)]
    with tempfile.TemporaryDirectory(prefix="security-") as folder:
        file = Path(folder) / "goals.json"
        options = [*(["--quick"] if quick else []), *(["--corpora", str(corpora.resolve())] if corpora else [])]
        subprocess.run(
            [*_OWN, sys.executable, "-m", "security.host_play", str(file), *options],
            env={**os.environ, "SECURITY_OUTER_NETWORK": os.readlink("/proc/self/ns/net")},
            check=True,
        )
        return msgspec.json.decode(file.read_bytes(), type=list[Goal])


def not_played(reason: str) -> Goal:
    """Returns the goal that is missed where the attack cannot run."""
    return Goal(name="hostile calls on a host", figure=f"not played: {reason}", goal="played", met=False)


def missing() -> str:
    """Returns the reason why this machine cannot run the attack; empty: it can."""
    programs = ("unshare", "ip", "nft", "bwrap", "useradd", "apt-get", "dpkg-scanpackages")
    if missing := [name for name in programs if shutil.which(name) is None]:
        return f"this machine has no {', '.join(missing)}"
    if os.geteuid() != 0 or subprocess.run([*_OWN, "true"], check=False).returncode:
        return "this user may not make namespaces of mounts and networks"
    return ""
