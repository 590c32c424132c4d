"""The command `toolcaddie` itself: the list of its subcommands, and the options that precede them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from toolcaddie import __version__
from toolcaddie.doors.cli.lazy import LazyGroup

_PACKAGE = "toolcaddie.doors.cli"

# For each command: the module that defines it, and the first sentence of its help, which `toolcaddie --help` lists.
_COMMANDS = {
    "init": (f"{_PACKAGE}.init", "Write a commented toolcaddie.toml into the current folder."),
    "serve": (f"{_PACKAGE}.serve", "Run the OpenAI-compatible gateway."),
    "run": (f"{_PACKAGE}.run", "Answer MESSAGE, calling tools as needed."),
    "chat": (f"{_PACKAGE}.chat", "Hold a conversation with the model and your tools."),
    "select": (f"{_PACKAGE}.select", "Show the tools that would be selected for MESSAGE."),
    "why": (f"{_PACKAGE}.why", "Explain why TOOL is selected or left out, for MESSAGE or in a recorded run."),
    "eval": (f"{_PACKAGE}.eval", "Measure how well tools are selected."),
    "tools": (f"{_PACKAGE}.tools", "List the tools of a catalog, or show one of them."),
    "call": (f"{_PACKAGE}.call", "Call TOOL without a model, with all checks of a run."),
    "policy": (f"{_PACKAGE}.policy", "Check the rules of the policy, and explain its decisions."),
    "trail": (f"{_PACKAGE}.trail", "List recorded runs, or show the events of one run."),
    "audit": (f"{_PACKAGE}.audit", "Check that nobody changed the trail, and export it."),
    "runs": (f"{_PACKAGE}.runs", "List runs with their state, or show the outcome of each call of one run."),
    "resume": (f"{_PACKAGE}.resume", "Continue RUN_ID, which waited for a person's approval."),
    "approvals": (f"{_PACKAGE}.approvals", "List the calls that wait for a person's approval, and answer them."),
    "authored": (f"{_PACKAGE}.authored", "List the tools that bots wrote, and decide about them."),
    "improve": (f"{_PACKAGE}.improve", "List what reviews propose for the files of bots, and decide about it."),
    "persona": (f"{_PACKAGE}.persona", "Read, compare, put back, export and forget what a bot has stored."),
    "channels": (
        f"{_PACKAGE}.channels",
        "List the channels, let people talk to a bot, and check a channel.",
    ),
    "jobs": (
        f"{_PACKAGE}.jobs",
        "List, run, pause and remove the jobs that bots do at set times, and show which processes do durable work.",
    ),
    "db": (f"{_PACKAGE}.db", "Show the size of the database, remove old runs, and copy it."),
    "mcp": (f"{_PACKAGE}.mcp", "Serve tools to MCP clients, and look after MCP servers whose tools are used here."),
    "import": (
        f"{_PACKAGE}.imports",
        "Write the MCP servers in a client's settings FILE as tables of toolcaddie.toml.",
    ),
    "usage": (f"{_PACKAGE}.key_limits", "Show how much the clients of the gateway have used."),
    "sandbox": (f"{_PACKAGE}.sandbox", "Show whether this machine holds the sandbox, and run a command in it."),
    "doctor": (
        f"{_PACKAGE}.doctor",
        "Show which parts of this machine the tools of the source host can use.",
    ),
    "bots": (f"{_PACKAGE}.bots", "List the bots of the settings, show one, and add one."),
    "settings": (
        f"{_PACKAGE}.settings",
        "Share sources, policy and limits of keys with all servers on a database.",
    ),
    "keys": (f"{_PACKAGE}.keys", "Create, limit, list and revoke API keys of the gateway."),
    "plugins": (f"{_PACKAGE}.plugins", "List the installed plugins, with the errors of those that cannot be loaded."),
    "completion": (f"{_PACKAGE}.completion", "Print the completion script for your shell."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """Options that precede the name of a subcommand. Each subcommand gets them as `obj` of click's context."""

    config: Path | None = None
    """The settings file of `--config`; None: `toolcaddie.toml` of the current folder, if it exists."""


@click.group(
    cls=LazyGroup,
    lazy=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExamples:\n"
    '  toolcaddie select "freeze John\'s membership" --catalog gym\n'
    "  toolcaddie serve --catalog gym\n"
    "\b\n"
    "Exit codes: 0 success, 1 failure, 2 wrong use, 130 interrupted.\n"
    "Options override environment variables, which override the settings file.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="TOOLCADDIE_CONFIG",
    show_envvar=True,
    help="Settings file. [default: toolcaddie.toml in the current folder, if it exists]",
)
@click.version_option(__version__, prog_name="toolcaddie", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, config: Path | None) -> None:
    """Give a language model the right tools: select them, run them, and explain why."""
    ctx.obj = Common(config=config)


def main() -> None:
    """Runs the command line and exits."""
    cli.main(prog_name="toolcaddie")
