"""The command group of `toolcaddie`: it imports a command only when it is used. No other file of the command line defers imports.

`toolcaddie --help`, shell completion and `--version` must answer at once, but a command such as `serve` needs a web server, a
database and a model's client, which take most of a second to load. The list of commands repeats the first sentence of each
command's help, because reading it from the command would import the command; a test checks that the two are equal.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click

from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.doors.cli.failure import Failure, failure_of, print_failure


class LazyGroup(click.Group):
    """A group of commands. `lazy` maps the name of a command to its module and the first sentence of its help. The module defines
    the command as `command`."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the module of a command and returns the command. None: there is no command of this name."""
        if cmd_name not in self.lazy:
            return None
        command: click.Command = importlib.import_module(self.lazy[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the name, the command and the other arguments. The error for an unknown name suggests a similar name; click
        itself would suggest only loaded commands, and none is loaded here."""
        if args[0] not in self.lazy and (close := difflib.get_close_matches(args[0], self.lazy, n=1)):
            ctx.fail(f"No such command {args[0]!r}; did you mean {close[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in self.lazy.items()])

    def main(self, args: Sequence[str] | None = None, *positional: Any, **extra: Any) -> NoReturn:
        """Runs a command and exits with its code: 0 success, 1 failure, 2 wrong use, 130 interrupted. An expected error prints
        one line on stderr and no traceback."""
        words = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        try:
            code = super().main(words, *positional, **extra)
        except (click.exceptions.Abort, KeyboardInterrupt):
            sys.exit(130)
        except BrokenPipeError:
            # The program that reads stdout has ended (`| head`). Python writes the rest of its output when it exits; with stdout
            # as /dev/null, that causes no second error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except (click.ClickException, ToolcaddieError) as error:
            failure = failure_of(error)
            print_failure(failure, as_json=_asks_for_json(words))
            sys.exit(failure.exit_code)
        sys.exit(code if isinstance(code, int) else 0)


def _asks_for_json(words: Sequence[str]) -> bool:
    """Returns True if `--json` is among the words of a command line, before any `--`. The words are searched and not parsed,
    because the error to report may be that they cannot be parsed."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


__all__ = ["Failure", "LazyGroup"]
