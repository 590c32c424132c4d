"""The session of docs/hosts.md is played through the gateway: what people write there is sent, their commands are run, and what
the page shows appears in this order.

The model is scripted and stands behind a real server. systemd, Open vSwitch and the packet filter are real: systemd and Open
vSwitch are reached by sockets of their own, and the server runs in a network namespace of its own.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import openai

from tests.doors.commandline import CommandLine
from tests.doors.page_sessions import compared
from tests.doors.processes import serving
from tests.tools.host.netns import LINUX_ROOT, NFT, isolated, nft
from tests.tools.host.ovs_rig import Machine, running_machine
from tests.tools.host.systemd_rig import RealSystemd, real_systemd
from toolcaddie.testing import ScriptedUpstream, calls, say

PAGE = Path(__file__).parents[2] / "docs" / "hosts.md"
_SITE = "/srv/site"
_SCRIPT = "test ! -e {0}/taken || {{ echo 'port 8080 is in use' >>{0}/site.log; exit 3; }}; exec sleep 1000"
_CLOSED = {"no-8080": {"chain": "input", "action": "drop", "protocol": "tcp", "port": 8080}}


def settings_of_the_page(folder: Path, world: RealSystemd, switch: Machine) -> str:
    """Returns the settings of the page, with the folder and the sockets of this test."""
    (text,) = re.findall(r"^```toml session\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    sockets = {
        "[source.systemd]": f'bus = "{world.address}"',
        "[source.ovs]": f'database = "{switch.database}"\nfolder = "{switch.folder}"',
    }
    for table, lines in sockets.items():
        assert table in text
        text = text.replace(table, f"{table}\n{lines}")
    return text.replace(_SITE, str(folder))


def running(*each: tuple[str, dict[str, Any]]) -> Any:
    return calls(*(("execute_tool", {"tool_name": name, "arguments": arguments}) for name, arguments in each))


def value(body: Any, number: int = -1) -> Any:
    """Returns the value in a result of a tool that the model was sent."""
    text = [message["content"] for message in body["messages"] if message["role"] == "tool"][number]
    return msgspec.json.decode(text[text.index("{") : text.rindex("}") + 1])


def script(folder: Path) -> list[Any]:
    """Returns the steps of a model that does what the page's person asks for."""
    diffs: list[Any] = []

    def applied(body: Any) -> Any:
        diffs.append(value(body))
        return running(("plugin_firewall_apply", {"diff": diffs[0], "dry_run": False}))

    def undone(body: Any) -> Any:
        return running(("plugin_firewall_apply", {"diff": diffs[1], "dry_run": False}))

    def closed(body: Any) -> Any:
        diffs.append(value(body)["undo"])
        return say("Port 8080 is closed. It opens again in two minutes unless you keep it so.")

    site, bridge = {"unit": "site"}, {"bridge": "br-lab"}
    return [
        running(("systemd_unit_status", site), ("read_file", {"path": f"{folder}/site.log"})),
        lambda body: say(
            f"site.service has failed: {value(body, 0)['result']}. Its log says that port 8080 is in use."
        ),
        running(("systemd_restart_unit", site)),
        lambda body: say(f"site.service is {value(body)['active']}."),
        running(("ovs_add_bridge", bridge), ("ovs_add_port", {**bridge, "port": "lab0"})),
        say("The bridge br-lab has the port lab0."),
        running(("plugin_firewall_diff", {"desired_state": _CLOSED})),
        applied,
        closed,
        lambda body: running(("plugin_firewall_apply", {"diff": diffs[0], "dry_run": False})),
        say("It stays closed."),
        undone,
        undone,
        say("Port 8080 is open again, and stays so."),
    ]


class Session:
    """A conversation with the gateway, and commands of the person who approves."""

    def __init__(self, client: openai.OpenAI, line: CommandLine) -> None:
        self._client = client
        self._line = line
        self._messages: list[Any] = []
        self.answer = ""
        self._names: dict[str, str] = {}

    def say(self, text: str) -> None:
        self._messages.append({"role": "user", "content": text})
        answer = self._client.chat.completions.create(model="gpt-test", messages=self._messages)
        self.answer = answer.choices[0].message.content or ""
        self._messages.append({"role": "assistant", "content": self.answer})
        for kind, name in re.findall(r"\b((?:run|approval))(_\w+)", self.answer):
            self._names[kind] = kind + name

    def command(self, words: str) -> str:
        """Runs a command, for the run and the question that were named last where the page has `...` for their ids."""
        for kind, name in self._names.items():
            words = words.replace(f"{kind}_...", name)
        program, *arguments = shlex.split(words)
        return nft(*arguments) if program == "nft" else self._line.ok(*arguments)


@LINUX_ROOT
@NFT
def test_the_page_of_the_host_shows_what_happens(toolcaddie: CommandLine) -> None:
    with real_systemd() as world, running_machine() as switch, isolated():
        folder = world.folder / "site"
        folder.mkdir()
        (folder / "taken").touch()
        world.service("site.service", f'/bin/sh -c "{_SCRIPT.format(folder)}"')
        world.control("daemon-reload")
        world.control("start", "--wait", "site.service")
        (toolcaddie.home / "toolcaddie.toml").write_text(settings_of_the_page(folder, world, switch))
        with (
            ScriptedUpstream(script(folder)) as upstream,
            serving(toolcaddie.home, "--preset", "compact", "--upstream", upstream.base_url) as server,
            server.client() as client,
        ):
            (folder / "taken").unlink()
            played(Session(client, toolcaddie))
            assert not upstream.refusals
        assert world.control("is-active", "site.service").stdout == "active\n"
        assert switch.vsctl("list-ports", "br-lab") == ["lab0"]
        assert "8080" not in nft("list", "ruleset")


def played(session: Session) -> None:
    """Sends and runs what the page's person writes, and compares what comes with what the page shows."""
    shown, awaited = "", list[str]()
    blocks = re.findall(r"^```text session\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for line in [*"".join(blocks).splitlines(), "$"]:
        if line.startswith(("you> ", "$")):
            compared(awaited, shown)
            awaited = []
        if line.startswith("you> "):
            session.say(line.removeprefix("you> "))
            shown = session.answer
        elif line.startswith("$ "):
            shown = session.command(line.removeprefix("$ "))
        elif line.strip():
            awaited.append(line)
