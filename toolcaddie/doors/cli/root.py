"""`toolcaddie` itself: the list of commands and the options before them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from toolcaddie import __version__
from toolcaddie.doors.cli.lazy import LazyGroup

_HERE = "toolcaddie.doors.cli"

_COMMANDS = {
    "init": (f"{_HERE}.init", "Write a commented toolcaddie.toml into this folder."),
    "serve": (f"{_HERE}.serve", "Run the OpenAI-compatible gateway."),
    "run": (f"{_HERE}.run", "Answer MESSAGE, calling tools on the way."),
    "chat": (f"{_HERE}.chat", "Talk to the model with your tools, turn by turn."),
    "select": (f"{_HERE}.select", "Show which tools MESSAGE would be given."),
    "why": (f"{_HERE}.why", "Say why TOOL is in or out for MESSAGE, or for a recorded run."),
    "eval": (f"{_HERE}.eval", "Measure how well tools are found."),
    "tools": (f"{_HERE}.tools", "List the tools of a catalog, or show one."),
    "call": (f"{_HERE}.call", "Run TOOL through every gate, without a model."),
    "trail": (f"{_HERE}.trail", "List recorded runs, or show what one run did."),
    "runs": (f"{_HERE}.runs", "List runs and how they stand, or show how each call of one ended."),
    "db": (f"{_HERE}.db", "See what the database holds, and remove what is old."),
    "keys": (f"{_HERE}.keys", "Make, list and revoke keys of the gateway."),
    "plugins": (f"{_HERE}.plugins", "Show what plugins were found and what failed."),
    "completion": (f"{_HERE}.completion", "Print the completion script of your shell."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """Options before a command's name, kept as the context's `obj`."""

    config: Path | None = None
    """The settings file that was named; None: toolcaddie.toml of this folder, if there is one."""


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
    """The entry point: never returns, exits."""
    cli.main(prog_name="toolcaddie")
