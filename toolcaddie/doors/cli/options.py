"""Options that several commands share, and the settings that result from options, environment variables and settings file."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import click
from click.shell_completion import CompletionItem
from msgspec import Struct
from msgspec.structs import replace

from toolcaddie.app.box import ALL, BOX, box_names, with_box
from toolcaddie.app.settings import LOOKS_LIKE_A_KEY, ApprovalAnswer, Log, Settings, load_settings, names_variable
from toolcaddie.audit.redact import redact_keys
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
    """Completes the value of `--catalog` in a shell: a sample or plugin by name, otherwise a file."""
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
    help="Tools to use: the name of a source (gym, host), a .jsonl file, python:module, openapi:FILE_OR_URL, mcp:URL or "
    "'mcp:COMMAND'. Can be repeated.",
)


def _box(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of sources that the values of `--box` contain."""
    try:
        return tuple(dict.fromkeys(name for value in values for name in box_names(value)))
    except ConfigError as error:
        raise click.BadParameter(str(error)) from error


box_option = click.option(
    "--box",
    metavar="NAMES",
    multiple=True,
    callback=_box,
    help=f"Shipped tools that act on the world, in addition to the catalogs: {', '.join(BOX)}, separated by commas, or {ALL}.",
)
preset_option = click.option(
    "--preset",
    type=click.Choice(sorted(PRESETS)),
    help="Named configuration of the selection of tools and of the tool-calling loop. [default: default]",
)
bot_option = click.option(
    "--bot",
    metavar="NAME",
    help="Bot of the settings that makes the request. [default: default_bot of toolcaddie.toml]",
)
database_option = click.option(
    "--database-url", metavar="URL", help="Database of runs, keys and the trail. [default: an SQLite file]"
)


def _address(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Checks the value of `--upstream`."""
    if value is not None and not value.strip().lower().startswith(("http://", "https://")):
        raise click.BadParameter(f"{value!r} must begin with http:// or https://, such as http://127.0.0.1:8000/v1")
    return value


_upstream = click.option(
    "--upstream",
    metavar="URL",
    callback=_address,
    help="Base address of the model's API; with chat completions it includes /v1.",
)


def _variable(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Checks the value of `--upstream-key-env`, where people write the key itself by mistake."""
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
    "--model", help="Model, with its provider in front unless that is OpenAI (anthropic:claude-sonnet-5-5)."
)


max_tools_option = click.option(
    "--max-tools", type=click.IntRange(min=0), help="Maximum number of selected tools; core tools are not counted."
)


approve_option = click.option(
    "--approve",
    type=click.Choice(["inbox", "run", "deny"]),
    help="Calls that need an approval: wait for a person, run anyway, or are refused. [default: inbox]",
)


def resume_command(run_id: str) -> str:
    """Returns the command that continues a run of the present command, with the same catalogs."""
    params = click.get_current_context().params
    return shlex.join(
        ["toolcaddie", "resume", run_id, *catalog_words(params.get("catalogs", ()), params.get("box", ()))]
    )


def catalog_words(catalogs: Sequence[str], box: Sequence[str]) -> list[str]:
    """Returns the options that name these catalogs, as words of a command line."""
    words = [word for catalog in catalogs for word in ("--catalog", catalog)]
    return [*words, "--box", ",".join(box)] if box else words


def upstream_options(command: F) -> F:
    """Adds the options that choose the API of the model: `--upstream` and `--upstream-key-env`."""
    return _upstream(_upstream_key_env(command))


def run_options(command: F) -> F:
    """Adds the options that all commands have that ask the model and call tools: `run` and `chat`."""
    options = (
        catalog_option,
        box_option,
        preset_option,
        bot_option,
        model_option,
        upstream_options,
        approve_option,
        database_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def settings_of(
    common: Common,
    *,
    catalogs: tuple[str, ...] = (),
    box: tuple[str, ...] = (),
    preset: str | None = None,
    model: str | None = None,
    database_url: str | None = None,
    upstream: str | None = None,
    upstream_key_env: str | None = None,
    host: str | None = None,
    port: int | None = None,
    workers: int | None = None,
    match: Match | None = None,
    max_tools: int | None = None,
    bot: str | None = None,
    approve: ApprovalAnswer | None = None,
    quiet: bool = True,
) -> Settings:
    """Returns the settings, and configures logging with them. The parameters are the values of a command's options; None: the
    option was not given. Options override environment variables, which override the settings file.

    `quiet`: True if the command reports its progress itself. Then only errors are logged, unless the settings name another level.

    Raises `ConfigError`, which names the wrong key.
    """
    settings = load_settings(common.config)
    level = "error" if quiet and settings.log.level == Log().level else settings.log.level
    configure_log(settings, level=level)
    check_bot(settings, bot)
    changed = _changed(
        settings,
        catalogs=catalogs or None,
        preset=preset,
        model=model,
        default_bot=bot,
        database_url=database_url,
        upstream=_changed(settings.upstream, url=upstream, key_env=upstream_key_env),
        server=_changed(settings.server, host=host, port=port, workers=workers),
        approvals=_changed(settings.approvals, answer=approve),
        selection={**settings.selection, **_set_flags(match=match)},
        budget={**settings.budget, **_set_flags(max_tools=max_tools)},
    )
    return with_box(changed, box)


def configure_log(settings: Settings, *, level: str) -> None:
    """Configures logging in the form that the settings name."""
    configure_logging(json=settings.log.json, level=level, redact=redact_keys)
    # At level info, alembic (which migrates the database) would log at every start that the database needs no migration.
    logging.getLogger("alembic").setLevel(logging.WARNING)


def check_bot(settings: Settings, name: str | None) -> None:
    """Raises `ConfigError` if `name`, the value of `--bot`, is not a bot of the settings."""
    if name is not None and name not in settings.bots:
        raise ConfigError(f"--bot: {no_such_bot(name, settings)}")


def no_such_bot(name: str, settings: Settings) -> str:
    """Returns an error message about a bot that the settings do not have, with what to do."""
    if not settings.bots:
        return "there are no bots; `toolcaddie bots new NAME` adds one"
    advice = unknown_bot(name, settings.bots)
    return advice if advice.endswith("?") else f"{advice}; `toolcaddie bots list` shows the bots"


def nothing_such(nouns: str, bot: str | None, settings: Settings) -> str:
    """Returns the sentence about an empty list that was asked for with filters. `bot`: one of them, which may be misspelt."""
    advice = "" if bot is None or bot in settings.bots else f"; {no_such_bot(bot, settings)}"
    return f"there are no such {nouns}{advice}"


def _changed(values: S, **changes: Any) -> S:
    """Returns a copy with those changes that are not None."""
    return replace(values, **_set_flags(**changes))


def _set_flags(**flags: Any) -> dict[str, Any]:
    """Returns the flags that are not None."""
    return {name: value for name, value in flags.items() if value is not None}
