"""docs/box.md is played on a terminal: what people type there is typed, and what it shows appears in this order.

The model is scripted and stands behind a real server; pages, files, commands, the sandbox and approvals are real.
"""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.doors.commandline import CommandLine
from tests.doors.page_sessions import PROMPT, commanded, played
from tests.doors.terminal import terminal
from tests.walls import needs_the_wall
from toolcaddie.testing import ScriptedUpstream, call, say

PAGE = Path(__file__).parents[2] / "docs" / "box.md"
PORT = "8400"
_BLOCKS = re.compile(r"^```(text|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MENU = "<script>x()</script><h1>Menu</h1><p>Soup of the day: <b>leek and potato</b>, 4.50</p><p>Pie: apple, 3.80</p>"

_SPLIT_BILL = {
    "name": "split_bill",
    "description": "Split a bill: add up prices and divide them by the number of people.",
    "type": "python",
    "source": 'def run(items, people):\n    return f"{sum(items.values()) / people:.2f} each"\n',
    "parameters": {
        "type": "object",
        "properties": {
            "items": {"type": "object", "additionalProperties": {"type": "number"}},
            "people": {"type": "integer", "minimum": 1},
        },
        "required": ["items", "people"],
    },
}


def model_of(port: str) -> Any:
    """Returns a model that answers the messages of the page: a call, and a sentence once it has the result."""
    note = "soup: leek and potato, 4.50\n"
    edit = {"path": "lunch.md", "old_text": "4.50\n", "new_text": "4.80\npie: apple, 3.80\n"}
    fetched = {"url": f"http://127.0.0.1:{port}/menu.html"}
    answers = {
        "read http": (call("web_fetch", fetched), "The soup of the day is leek and potato, for 4.50."),
        "note it": (call("file_write", {"path": "lunch.md", "content": note}), "It is in lunch.md."),
        "add the pie": (call("file_edit", edit), "Done."),
        "how many": (call("exec", {"command": "wc -l lunch.md"}), "Two lines."),
        "write a tool": (call("create_tool", _SPLIT_BILL), "I wrote split_bill. It waits until you approve it."),
        "split the": (
            call("split_bill", {"items": {"soup": 4.8, "pie": 3.8}, "people": 2}),
            "4.30 for each of you.",
        ),
    }

    def answer(body: Any) -> Any:
        last = body["messages"][-1]
        asked = next(each["content"] for each in reversed(body["messages"]) if each["role"] == "user")
        step, sentence = next(answers[start] for start in answers if asked.startswith(start))
        return say(sentence) if last["role"] == "tool" else step

    return answer


@contextmanager
def web_server(folder: Path) -> Iterator[str]:
    """Serves a folder and yields the port."""
    (folder / "menu.html").write_text(_MENU)
    handler = partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield str(server.server_port)
        server.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...


@needs_the_wall
def test_the_page_of_the_box_shows_what_happens(
    toolcaddie: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    (tmp_path / "site").mkdir()
    with web_server(tmp_path / "site") as port, ScriptedUpstream(model_of(port)) as upstream:
        page = PAGE.read_text().replace(PORT, port)
        blocks = [(kind, text) for kind, text in _BLOCKS.findall(page)]
        [settings] = [text for kind, text in blocks if kind == "toml"]
        (toolcaddie.home / "toolcaddie.toml").write_text(settings)
        with terminal("chat", "--box", "all", "--upstream", upstream.base_url, "--model", "gpt-test") as person:
            person.until(PROMPT.encode())
            for _, text in blocks:
                if text.startswith(PROMPT):
                    played(person, text.splitlines())
                elif text.startswith("$ "):
                    commanded(toolcaddie, text)
    assert (toolcaddie.home / "workspace" / "lunch.md").read_text() == "soup: leek and potato, 4.80\npie: apple, 3.80\n"
