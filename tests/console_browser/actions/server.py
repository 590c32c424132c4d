"""A friendly server: `toolcaddie serve` with the tools, people and bots of an office, in front of a model that does as told."""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.request
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.clients.server import toolcaddie_serve
from tests.console_browser.actions.filling import Filled, filled
from tests.console_browser.actions.model import Model
from tests.console_browser.actions.office import FOLDER
from tests.sources.mcp import growing
from toolcaddie.doors.console.sections import PageRoute
from toolcaddie.testing import ScriptedUpstream

MODEL = "gpt-test"
_ROOT = Path(__file__).parents[3]
_SETTINGS = """
catalogs = ["python:tests.console_browser.actions.office"]
database_url = "sqlite:///{folder}/console.sqlite"
model = "{model}"
default_bot = "helper"

[upstream]
url = "{upstream}"
key_env = "OFFICE_KEY"

[[source]]
type = "authored"
store_path = "{folder}/tools"

[[source]]
type = "cron"

[[source]]
type = "mcp"
name = "growing"
command = {python}
args = [{growing}]

[sandbox]
type = "plain"

[bots.helper]
description = "Helps everybody."

[bots.clerk]
description = "Writes notes."
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FriendlyServer:
    """The server, and everything around it that a test touches."""

    url: str
    folder: Path
    """The folder of its notes."""
    keys: Mapping[str, str]
    """The API key of each person."""
    forms: Sequence[PageRoute]
    """The targets of all forms of the console."""
    model: Model
    upstream: ScriptedUpstream
    sent: set[str] = field(default_factory=set)
    """The addresses to which browsers have sent forms that were accepted."""
    _conversations: MutableMapping[str, list[dict[str, str]]] = field(default_factory=dict)
    """The messages of each run of a program."""

    def note(self, name: str) -> str | None:
        """Returns what a note says; None: it was not written."""
        file = self.folder / f"{name}.txt"
        return file.read_text(encoding="utf-8") if file.exists() else None

    def ask(self, message: str, *, who: str = "ann") -> str:
        """Sends a message through the gateway as a program of a person, and returns the id of its run."""
        return self._send([{"role": "user", "content": message}], who)

    def go_on(self, run_id: str, *, who: str = "ann") -> None:
        """Sends the next message of a conversation, with which the gateway goes on with a run that waited."""
        self._send([*self._conversations[run_id], {"role": "user", "content": "go on"}], who)

    def _send(self, messages: list[dict[str, str]], who: str) -> str:
        request = urllib.request.Request(
            f"{self.url}/v1/chat/completions",
            data=json.dumps({"model": MODEL, "messages": messages}).encode(),
            headers={"authorization": f"Bearer {self.keys[who]}", "content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = json.load(answer)["choices"][0]["message"]["content"]
            run_id = str(answer.headers["x-toolcaddie-run"])
        self._conversations[run_id] = [*messages, {"role": "assistant", "content": text}]
        return run_id


@contextmanager
def friendly(folder: Path) -> Iterator[FriendlyServer]:
    """Starts the server over a new database in `folder`."""
    model = Model()
    notes = folder / "notes"
    notes.mkdir()
    with pytest.MonkeyPatch.context() as patch, ScriptedUpstream(model) as upstream:
        patch.setenv("OFFICE_KEY", "test-key")
        patch.setenv(FOLDER, str(notes))
        patch.setenv("PYTHONPATH", str(_ROOT))
        file = folder / "toolcaddie.toml"
        file.write_text(_text(folder, upstream.base_url), encoding="utf-8")
        known: Filled = asyncio.run(filled(file))
        with toolcaddie_serve(folder) as url:
            yield FriendlyServer(
                url=url, folder=notes, keys=known.keys, forms=known.forms, model=model, upstream=upstream
            )


def _text(folder: Path, upstream: str) -> str:
    return _SETTINGS.format(
        folder=folder,
        model=MODEL,
        upstream=upstream,
        python=json.dumps(sys.executable),
        growing=json.dumps(str(growing.__file__)),
    )
