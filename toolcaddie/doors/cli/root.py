"""`toolcaddie` itself: the list of commands and the options before them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from toolcaddie import __version__
from toolcaddie.doors.cli.lazy import LazyGroup

_PACKAGE = "toolcaddie.doors.cli"

_COMMANDS = {
    "init": (f"{_PACKAGE}.init", "Write a commented toolcaddie.toml into this folder."),
    "serve": (f"{_PACKAGE}.serve", "Run the OpenAI-compatible gateway."),
    "run": (f"{_PACKAGE}.run", "Answer MESSAGE, calling tools on the way."),
    "chat": (f"{_PACKAGE}.chat", "Talk to the model with your tools, turn by turn."),
    "select": (f"{_PACKAGE}.select", "Show which tools MESSAGE would be given."),
    "why": (f"{_PACKAGE}.why", "Say why TOOL is in or out for MESSAGE, or for a recorded run."),
    "eval": (f"{_PACKAGE}.eval", "Measure how well tools are found."),
    "tools": (f"{_PACKAGE}.tools", "List the tools of a catalog, or show one."),
    "call": (f"{_PACKAGE}.call", "Run TOOL through every gate, without a model."),
    "trail": (f"{_PACKAGE}.trail", "List recorded runs, or show what one run did."),
    "runs": (f"{_PACKAGE}.runs", "List runs and how they stand, or show how each call of one ended."),
    "db": (f"{_PACKAGE}.db", "See what the database holds, and remove what is old."),
    "keys": (f"{_PACKAGE}.keys", "Make, list and revoke keys of the gateway."),
    "plugins": (f"{_PACKAGE}.plugins", "Show what plugins were found and what failed."),
    "completion": (f"{_PACKAGE}.completion", "Print the completion script of your shell."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """Options before a command's name, kept as the context's `obj`."""

    config: Path | None = None
    """The settings file of `--config`; None: toolcaddie.toml of this folder, if there is one."""


@click.group(
    cls=LazyGroup,
    lazy=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExamples:\n"
    '  toolcaddie select "freeze John\'s membership" --catalog gym\n'
    "  toolcaddie serve --catalog gym\n"
    "\b\n"
    "Exit codes: 0 fine, 1 failed, 2 wrong use.\n"
    "Flags win over the environment, the environment over the file.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="TOOLCADDIE_CONFIG",
    show_envvar=True,
    help="Settings file. [default: toolcaddie.toml of this folder, if there is one]",
)
@click.version_option(__version__, prog_name="toolcaddie", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, config: Path | None) -> None:
    """Hand a language model the right tools: pick them, run them, and show why."""
    ctx.obj = Common(config=config)


def main() -> None:
    """Runs the command line and exits."""
    cli.main(prog_name="toolcaddie")
