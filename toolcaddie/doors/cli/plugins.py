"""`toolcaddie plugins`: lists the installed parts, Toolcaddie's own and those of other packages, and the errors of parts that
cannot be used."""

from __future__ import annotations

import click

from toolcaddie.doors.cli.output import json_option, print_json, print_table
from toolcaddie.registry import SOCKETS, Registry


@click.command(name="plugins", epilog="\b\nExamples:\n  toolcaddie plugins\n  toolcaddie plugins --json")
@json_option
def command(as_json: bool) -> None:
    """List the installed plugins, with the errors of those that cannot be loaded.

    A plugin is an entry point of an installed package; the parts of Toolcaddie itself are plugins as well.
    """
    registry = Registry()
    plugins = [plugin for socket in SOCKETS for plugin in registry.plugins(socket)]
    if as_json:
        print_json({"plugins": plugins})
        return
    rows = [
        (plugin.group, plugin.name, f"{plugin.distribution} {plugin.version}", plugin.error or "ok")
        for plugin in plugins
    ]
    print_table(("group", "name", "from", "state"), rows, spare=("from",))
