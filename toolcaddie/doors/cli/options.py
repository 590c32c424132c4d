"""Options that several commands share, and the settings that flags, environment and file make together."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import click
from click.shell_completion import CompletionItem
from msgspec import Struct
from msgspec.structs import replace

from toolcaddie.app.settings import LOOKS_LIKE_A_KEY, Log, Settings, load_settings, names_variable
from toolcaddie.control.bots import unknown_bot
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import PRESETS
from toolcaddie.doors.cli.root import Common
from toolcaddie.registry import Registry
from toolcaddie.sources.named import catalog_names
from toolcaddie.telemetry.logs import configure_logging

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=Struct)

Match = Literal["word", "substring"]


def _complete_catalog(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = catalog_names(Registry())
    return [CompletionItem(name) for name in names if name.startswith(incomplete)] or [
        CompletionItem(incomplete, type="file")
    ]


catalog_option = click.option(
    "--catalog",
    "catalogs",
    metavar="SPEC",
    multiple=True,
    shell_complete=_complete_catalog,
    help="Tools to use: a sample's name (gym), a .jsonl file, or python:module. May be given several times.",
)
preset_option = click.option(
    "--preset", type=click.Choice(sorted(PRESETS)), help="Named configuration of selection and loop. [default: default]"
)
bot_option = click.option(
    "--bot", metavar="NAME", help="Ask as this bot of the settings. [default: default_bot of toolcaddie.toml]"
)
database_option = click.option(
    "--database-url", metavar="URL", help="Where runs, keys and the trail are kept. [default: an SQLite file]"
)
_upstream = click.option("--upstream", metavar="URL", help="Base address of the model's API, with /v1.")


def _variable(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not names_variable(value):
        raise click.BadParameter(LOOKS_LIKE_A_KEY)
    return value


_upstream_key_env = click.option(
    "--upstream-key-env",
    metavar="NAME",
    callback=_variable,
    help="Environment variable that holds the upstream's key. [default: the provider's own]",
)
model_option = click.option(
    "--model", help="Model to ask, with its provider in front if that is not OpenAI (anthropic:...)."
)


max_tools_option = click.option(
    "--max-tools", type=click.IntRange(min=0), help="Most tools to select, core ones aside."
)


def upstream_options(command: F) -> F:
    """The options that choose a model's API."""
    return _upstream(_upstream_key_env(command))


def run_options(command: F) -> F:
    """Everything a command needs that runs the model."""
    return catalog_option(preset_option(bot_option(model_option(upstream_options(database_option(command))))))


def settings_of(
    common: Common,
    *,
    catalogs: tuple[str, ...] = (),
    preset: str | None = None,
    model: str | None = None,
    database_url: str | None = None,
    upstream: str | None = None,
    upstream_key_env: str | None = None,
    host: str | None = None,
    port: int | None = None,
    match: Match | None = None,
    max_tools: int | None = None,
    bot: str | None = None,
    quiet: bool = True,
) -> Settings:
    """Flags over environment over file over defaults; a flag that was not given says nothing. Logs go as they say.

    `quiet`: the command tells what happens itself, so that only errors are logged unless another level was set.

    Raises `ConfigError` naming the key at fault.
    """
    settings = load_settings(common.config)
    level = "error" if quiet and settings.log.level == Log().level else settings.log.level
    configure_logging(json=settings.log.json, level=level)
    check_bot(settings, bot)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells at every start that there was nothing to do
    return _with(
        settings,
        catalogs=catalogs or None,
        preset=preset,
        model=model,
        default_bot=bot,
        database_url=database_url,
        upstream=_with(settings.upstream, url=upstream, key_env=upstream_key_env),
        server=_with(settings.server, host=host, port=port),
        selection={**settings.selection, **_given(match=match)},
        budget={**settings.budget, **_given(max_tools=max_tools)},
    )


def check_bot(settings: Settings, name: str | None) -> None:
    """Raises `ConfigError` for a bot that the settings do not have."""
    if name is not None and name not in settings.bots:
        there = unknown_bot(name, settings.bots) if settings.bots else "there are no bots; add a table [bots.NAME]"
        raise ConfigError(f"--bot: {there}")


def _with(values: S, **given: Any) -> S:
    return replace(values, **_given(**given))


def _given(**flags: Any) -> dict[str, Any]:
    """The flags that were used."""
    return {name: value for name, value in flags.items() if value is not None}
