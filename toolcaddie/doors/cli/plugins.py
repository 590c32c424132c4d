"""`toolcaddie plugins`: what other packages brought, and what of it cannot be used."""

from __future__ import annotations

import click

from toolcaddie.doors.cli.output import json_option, print_json, print_table
from toolcaddie.plugins import GROUPS, discover


@click.command(name="plugins", epilog="\b\nExamples:\n  toolcaddie plugins\n  toolcaddie plugins --json")
@json_option
def command(as_json: bool) -> None:
    """Show what plugins were found and what failed.

    A plugin is an entry point of another package; toolcaddie's own parts come in by the same door.
    """
    found = {group: discover(group) for group in GROUPS}
    if as_json:
        print_json({"plugins": [plugin for plugins in found.values() for plugin in plugins]})
        return
    rows = [
        (group, plugin.name, f"{plugin.distribution} {plugin.version}", plugin.error or "ok")
        for group, plugins in found.items()
        for plugin in plugins
    ]
    print_table(("group", "name", "from", "state"), rows, spare=("from",))
