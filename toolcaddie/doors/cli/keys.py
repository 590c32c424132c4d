"""`toolcaddie keys`: creates, limits, lists and revokes API keys of the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from toolcaddie.app.build import existing_or_empty, opened
from toolcaddie.app.settings import Settings
from toolcaddie.app.tenants import tenant_entries
from toolcaddie.core.control import Principal, checked_tenant
from toolcaddie.core.storage import ApiKey
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.key_limits import limit_options
from toolcaddie.doors.cli.options import check_bot, database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.key_sheets import changed_limits, key_json, limits_text
from toolcaddie.doors.texts import local_time
from toolcaddie.ports import KeyStore

T = TypeVar("T")


@click.group(
    name="keys",
    epilog="\b\nExamples:\n"
    "  toolcaddie keys add laptop\n"
    "  toolcaddie keys add reception --role staff --bot reception\n"
    "  toolcaddie keys add acme-web --tenant acme\n"
    "  toolcaddie keys limit laptop --requests-per-minute 60 --dollars-per-day 5\n"
    "  toolcaddie keys list --json\n"
    "  toolcaddie keys revoke laptop",
)
def command() -> None:
    """Create, limit, list and revoke API keys of the gateway.

    Once a key exists, every request to the gateway needs one.
    """


@command.command(
    "add",
    epilog="\b\nExamples:\n"
    "  toolcaddie keys add laptop\n"
    "  toolcaddie keys add reception --role staff --bot reception\n"
    '  curl -H "Authorization: Bearer tc_..." http://127.0.0.1:8321/v1/models',
)
@click.argument("name")
@click.option("--role", help="Role of the requests with this key.")
@click.option("--bot", help="Bot that makes the requests with this key.")
@click.option("--tenant", default="default", show_default=True, help="Tenant of the requests with this key.")
@limit_options
@database_option
@json_option
@click.pass_obj
def add(
    common: Common,
    /,
    name: str,
    role: str | None,
    bot: str | None,
    tenant: str,
    database_url: str | None,
    as_json: bool,
    **limits: Any,
) -> None:
    """Create the key NAME and print its secret.

    The secret is not stored, so it cannot be shown again.
    """
    settings = settings_of(common, database_url=database_url)
    if settings.bots:
        check_bot(settings, bot)
    principal = Principal(id=name, role=role, bot=bot, tenant=checked_tenant(tenant))
    folder = settings.tenants.folder
    has_own_tools = folder is not None and tenant_entries(Path(folder), tenant) is not None
    own = changed_limits({}, limits)
    key, secret = _with_keys(settings, lambda keys: keys.add(name, principal, limits=own), create=True)
    if as_json:
        print_json({**key_json(key, settings.key_limits), "secret": secret})
        return
    echo(secret)
    note(f"Key {key.id} ({key.name}). The secret is not stored: copy it now.")
    if settings.bots and bot is None and settings.default_bot is None:
        note("The key has no bot, so its requests are refused: create one with --bot, or set default_bot.")
    if folder is not None and not has_own_tools:
        note(f"There is no file {Path(folder) / tenant}.toml, so the tenant has the tools that all share.")
    if bot is not None and not settings.bots:
        note(
            f"The settings have no table [bots], so {bot!r} counts only for rules of the policy and the scope of tools."
        )


@command.command("list", epilog="\b\nExample:\n  toolcaddie keys list --json")
@database_option
@json_option
@click.pass_obj
def list_keys(common: Common, database_url: str | None, as_json: bool) -> None:
    """List all keys, including revoked ones."""
    settings = settings_of(common, database_url=database_url)
    keys = _with_keys(settings, lambda keys: keys.list())
    if as_json:
        print_json({"keys": [key_json(key, settings.key_limits) for key in keys]})
    elif not keys:
        note("There are no keys: the gateway serves this machine only. To create one: toolcaddie keys add NAME")
    else:
        rows = [
            (
                key.id,
                key.name,
                f"{key.hint}…",
                key.principal.role,
                key.principal.bot,
                limits_text(settings.key_limits.with_own(key.limits)),
                local_time(key.created),
                local_time(key.last_used) or "never",
                f"revoked {local_time(key.revoked)}" if key.revoked else "live",
            )
            for key in keys
        ]
        columns = ("id", "name", "secret", "role", "bot", "limits", "made", "used", "state")
        print_table(columns, rows, spare=("made", "secret", "used", "bot", "limits"))


@command.command(
    "limit",
    epilog="\b\nExamples:\n"
    "  toolcaddie keys limit laptop\n"
    "  toolcaddie keys limit laptop --requests-per-minute 60 --dollars-per-day 5\n"
    "  toolcaddie keys limit laptop --tokens-per-day none",
)
@click.argument("key", metavar="ID|NAME")
@limit_options
@database_option
@json_option
@click.pass_obj
def limit(common: Common, /, key: str, database_url: str | None, as_json: bool, **limits: Any) -> None:
    """Set limits of a key, or show them; a running gateway has them within a second.

    `none` removes a limit, also that of the settings. `default` returns to the limit of the settings (`key_limits`).
    """
    settings = settings_of(common, database_url=database_url)
    changed = _with_keys(settings, lambda keys: _limited(keys, key, limits))
    if as_json:
        print_json(key_json(changed, settings.key_limits))
    else:
        in_force = limits_text(settings.key_limits.with_own(changed.limits)) or "no limits"
        echo(f"{changed.name}: {in_force}")


async def _limited(keys: KeyStore, id_or_name: str, options: Mapping[str, Any]) -> ApiKey:
    """Changes the limits that the options name, and returns the key."""
    key = next((key for key in await keys.list() if id_or_name in (key.id, key.name)), None)
    limits = changed_limits({} if key is None else key.limits, options)
    if key is not None and limits == key.limits:
        return key
    return await keys.limit(id_or_name, limits)


@command.command("revoke", epilog="\b\nExample:\n  toolcaddie keys revoke laptop")
@click.argument("key", metavar="ID|NAME")
@database_option
@json_option
@click.pass_obj
def revoke(common: Common, key: str, database_url: str | None, as_json: bool) -> None:
    """Revoke a key; a running gateway refuses it within a second."""
    settings = settings_of(common, database_url=database_url)
    revoked = _with_keys(settings, lambda keys: keys.revoke(key))
    if as_json:
        print_json(key_json(revoked, settings.key_limits))
    else:
        echo(f"revoked {revoked.id} ({revoked.name})")


def _with_keys(settings: Settings, query: Callable[[KeyStore], Awaitable[T]], *, create: bool = False) -> T:
    """Opens the database, and returns the result of a query of its keys. `create`: a missing database is made."""

    async def answer() -> T:
        async with opened(settings) if create else existing_or_empty(settings) as database:
            return await query(database.keys)

    return asyncio.run(answer())
