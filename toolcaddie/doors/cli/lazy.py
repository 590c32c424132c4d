"""A group whose commands are imported when they are used: the one place with a deferred import.

`toolcaddie --help`, shell completion and `--version` must answer at once, and a command such as `serve` needs a web
server, a database and a model's client, which take most of a second to load. Everywhere else imports are at the top of
the file. The list of commands repeats each command's first sentence, because reading it from the command would import
the command; a test keeps the two equal.
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
    """A group of commands. `lazy` maps a name to (module, one sentence); the module has the command as `command`."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return None
        command: click.Command = importlib.import_module(self.lazy[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the command, or suggests close names: click's own suggests loaded commands only, and none is loaded."""
        if args[0] not in self.lazy and (close := difflib.get_close_matches(args[0], self.lazy, n=1)):
            ctx.fail(f"No such command {args[0]!r}; did you mean {close[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in self.lazy.items()])

    def main(self, args: Sequence[str] | None = None, *positional: Any, **extra: Any) -> NoReturn:
        """Runs and exits: 0 fine, 2 wrong use, 1 failed, 130 interrupted. An expected error prints one line on stderr and
        no traceback."""
        words = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        try:
            code = super().main(words, *positional, **extra)
        except (click.exceptions.Abort, KeyboardInterrupt):
            sys.exit(130)
        except BrokenPipeError:  # the reader of our output is gone (`| head`): no one could read an error
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
    """Tells from the bare words, because the error may be that the command line could not be parsed."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


__all__ = ["Failure", "LazyGroup"]
