"""The text that `toolcaddie serve` prints at start: the address, the model that answers, and commands to copy and run next."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from toolcaddie.app.authoring import writes_tools
from toolcaddie.app.box import BOX
from toolcaddie.app.build import Assembled
from toolcaddie.app.models import OPENAI, key_variable
from toolcaddie.app.settings import DEFAULT_DATABASE, GatewaySettings, MCPSettings, Settings
from toolcaddie.doors.cli.options import catalog_words
from toolcaddie.doors.texts import counted

_OPENAI_MODEL = "gpt-5-mini"
_SAMPLE = "gym"
_NO_CATALOG = "  your own tools: send them as `tools` of a request, or restart with --catalog SPEC to run them here"


def welcome(parts: Assembled, url: str, *, needs_key: bool, config: Path | None) -> str:
    """Returns the text. `needs_key`: True if requests need a key of the gateway. `config`: the file of `--config`."""
    settings = parts.settings
    tools = len(parts.runtime.source.snapshot())
    program = _program() + ("" if config is None else f" --config {shlex.quote(str(config))}")
    catalog = "".join(f" {shlex.quote(word)}" for word in _catalog_words(settings.catalogs))
    database = _database(settings.database_url)
    model = parts.runtime.model or (_OPENAI_MODEL if _is_openai(parts) else "NAME")
    key = _key(parts, needs_key=needs_key)
    watchers = _watchers(settings.gateway, needs_key=needs_key)
    workers = f", {settings.server.workers} workers" if settings.server.workers > 1 else ""
    bot = _bot(settings)
    asked = model if bot is None else f"bot:{bot}"
    bots = "" if bot is None else f", {counted(len(settings.bots), 'bot')}"
    request = "freeze membership of John" if _SAMPLE in settings.catalogs else "hello"
    example = "freeze John's membership" if _SAMPLE in settings.catalogs else "what you want done"
    return "\n".join(
        (
            f"Toolcaddie listens on {url} with {tools} tools{bots}, preset {parts.runtime.preset.name}{workers}.  Stop: Ctrl-C",
            _model_line(parts, needs_key=needs_key),
            *([f"Requests need a key in place of tc_...: {program} keys add NAME{database}"] * needs_key),
            "Try next, in another terminal:",
            f"  curl {url}/v1/chat/completions -H 'content-type: application/json' \\",
            *([f'    -H "authorization: Bearer {key}" \\'] if key else []),
            f"    -d {shlex.quote(_body(asked, request))}",
            f'  python: openai.OpenAI(base_url="{url}/v1", api_key={_in_python(key)})',
            f"  {program} chat{_bot_option(settings)}{catalog}{_upstream(parts, model)}{database}",
            _tools_line(program, catalog, example, has_bots=bot is not None, has_tools=bool(settings.source)),
            f"  {program} trail{database}  # what was selected, called and answered",
            f"  {url}/metrics{watchers}{_mcp(settings.mcp, url)}{_console(settings, url)}, and docs/ for everything else",
        )
    )


def _bot(settings: Settings) -> str | None:
    """Returns the bot of the examples: the default one, or else the first. None: the settings have none."""
    return settings.default_bot or next(iter(settings.bots), None)


def _bot_option(settings: Settings) -> str:
    """Returns the option that names a bot, without which requests are refused if none is the default."""
    return f" --bot {shlex.quote(next(iter(settings.bots)))}" if settings.bots and not settings.default_bot else ""


def _tools_line(program: str, catalog: str, example: str, *, has_bots: bool, has_tools: bool) -> str:
    """Returns the command that shows tools, or how to have some. `has_tools`: the settings have sources of tools."""
    if has_bots and not catalog:
        return f"  {program} bots list  # the bots, and the number of tools of each"
    return f'  {program} select "{example}"{catalog}' if catalog or has_tools else _NO_CATALOG


def _catalog_words(catalogs: Sequence[str]) -> list[str]:
    return catalog_words([each for each in catalogs if each not in BOX], [each for each in catalogs if each in BOX])


def _watchers(settings: GatewaySettings, *, needs_key: bool) -> str:
    """Returns whose keys may read the metrics; empty: the server has no keys."""
    return f" (with a key of {', '.join(settings.metrics) or 'nobody'})" if needs_key else ""


def _mcp(settings: MCPSettings, url: str) -> str:
    """Returns the address of the MCP door, as the continuation of a list."""
    return f", {url}{settings.path} for MCP clients" if settings.enabled else ""


def _console(settings: Settings, url: str) -> str:
    """Returns the address at which people review tools that bots wrote, as the continuation of a list."""
    return f", {url}/console/authored for tools that bots wrote" if writes_tools(settings) else ""


def _model_line(parts: Assembled, *, needs_key: bool) -> str:
    """Returns the line about the model: the source of the answers, and the key with which it is asked."""
    if parts.practice:
        named = parts.settings.model is not None  # then a key alone changes nothing
        remedy = (
            "name it with --model, or as `model` in the settings"
            if named
            else "export OPENAI_API_KEY=... or --upstream URL"
        )
        return f"The practice model answers: rules, offline. For a real one: {remedy}"
    upstream = f"Answers come from {parts.settings.upstream.url or parts.provider.name}"
    variable = key_variable(parts.settings)
    if variable is None:
        return upstream
    if parts.own_upstream_key:
        return f"{upstream}, asked with the key of {variable}"
    if needs_key:
        return f"{upstream}, asked without a key: {variable} is not set"
    return f"{upstream}; no key is set for it, so clients' own keys are forwarded"


def _key(parts: Assembled, *, needs_key: bool) -> str:
    """Returns the key for a client's Authorization header, as the examples show it: a placeholder for a key of the gateway, or
    `$OPENAI_API_KEY` for the provider's key, which the gateway forwards. Empty: the client needs no key."""
    if needs_key:
        return "tc_..."
    return "" if parts.own_upstream_key else f"${key_variable(parts.settings)}"


def _in_python(key: str) -> str:
    """Returns the result of `_key` as a Python expression."""
    return f'os.environ["{key[1:]}"]' if key.startswith("$") else f'"{key or "none"}"'


def _body(model: str, message: str) -> str:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": message}]})


def _upstream(parts: Assembled, model: str) -> str:
    """Returns the options that make another command ask the same model."""
    if parts.practice:
        return ""
    upstream = parts.settings.upstream
    url = "" if upstream.url is None else f" --upstream {shlex.quote(upstream.url)}"
    variable = "" if upstream.key_env is None else f" --upstream-key-env {shlex.quote(upstream.key_env)}"
    model_name = model if parts.provider.name == OPENAI else f"{parts.provider.name}:{model}"
    return f"{url}{variable} --model {shlex.quote(model_name)}"


def _is_openai(parts: Assembled) -> bool:
    """Returns True if requests go to OpenAI itself, so that the example may name one of its models."""
    url = parts.settings.upstream.url
    return parts.provider.name == OPENAI and (url is None or urlsplit(url).hostname == "api.openai.com")


def _database(url: str) -> str:
    """Returns the option that makes another command use the same database, or nothing for the default. An address that may
    contain a password is not printed."""
    if url == DEFAULT_DATABASE:
        return ""
    return " --database-url " + ("URL" if "@" in url else shlex.quote(url))


def _program() -> str:
    """Returns the command that starts this program: its name if the shell finds it, else its path."""
    if shutil.which("toolcaddie"):
        return "toolcaddie"
    script = shutil.which("toolcaddie", path=str(Path(sys.executable).parent))
    return _path(script) if script else f"{_path(sys.executable)} -m toolcaddie"


def _path(absolute: str) -> str:
    """Returns the absolute or the relative path, the shorter of the two, quoted for a shell."""
    relative = os.path.relpath(absolute)
    if os.sep not in relative:
        relative = os.path.join(os.curdir, relative)  # a shell looks for a bare name on its path only
    return shlex.quote(min(relative, absolute, key=len))
