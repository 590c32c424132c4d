"""The group `shell`: one program at a time, without a shell, in the sandbox."""

from __future__ import annotations

from toolcaddie.tools.host.shell.group import shell_group
from toolcaddie.tools.host.shell.settings import DEFAULT_SHELL, ShellSettings

__all__ = ["DEFAULT_SHELL", "ShellSettings", "shell_group"]
