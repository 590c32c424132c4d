"""The command line as tests use it: they run commands and read their answers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tests.databases import home_environment
from toolcaddie.doors.cli import cli


class CommandLine:
    """Runs `toolcaddie` in this process, in the folder `home`."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def __call__(self, *words: object, stdin: str | None = None) -> Result:
        """Whatever comes out, exit code included; a traceback is a failure of the test."""
        environment = home_environment(self.home) if "TOOLCADDIE_DATABASE_URL" not in os.environ else {}
        runner = CliRunner(env=environment)
        result = runner.invoke(cli, [str(word) for word in words], input=stdin, prog_name="toolcaddie")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def ok(self, *words: object, stdin: str | None = None) -> str:
        """Standard output of a command that must succeed."""
        result = self(*words, stdin=stdin)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def json(self, *words: object) -> Any:
        """Returns the output with --json of a command that must succeed."""
        return json.loads(self.ok(*words, "--json"))

    def refused(self, *words: object) -> str:
        """The one line on stderr of a command used wrongly."""
        result = self(*words)
        assert result.exit_code == 2, (result.exit_code, result.stdout, result.stderr)
        assert result.stdout == ""
        assert result.stderr.count("\n") == 1
        return result.stderr
