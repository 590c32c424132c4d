"""`toolcaddie completion SHELL`: prints the script that makes the shell complete commands, options and names."""

from __future__ import annotations

import json

import click
from click.shell_completion import get_completion_class

from toolcaddie.doors.cli.echo import echo

_VARIABLE = "_TOOLCADDIE_COMPLETE"
"""The environment variable that click reads for a program called toolcaddie."""


@click.command(
    name="completion",
    epilog="\b\nExamples:\n"
    "  toolcaddie completion bash >> ~/.bashrc\n"
    "  toolcaddie completion zsh >> ~/.zshrc\n"
    "  toolcaddie completion fish > ~/.config/fish/completions/toolcaddie.fish",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, shell: str, as_json: bool) -> None:
    """Print the completion script for your shell."""
    completion = get_completion_class(shell)
    assert completion is not None  # click has a class for each shell that the argument allows
    script = completion(ctx.find_root().command, {}, "toolcaddie", _VARIABLE).source()
    echo(json.dumps({"shell": shell, "script": script}) if as_json else script)
