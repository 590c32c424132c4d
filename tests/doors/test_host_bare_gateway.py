"""A request at the gateway that calls the tools of a host, one after another, on a machine without their back ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doors.hosts import CALLS, bare_host
from tests.doors.test_host_bare import WORDS, WORKS
from toolcaddie.testing import ScriptedUpstream, calls, say

ENDS = {"respond_to_user", "cannot_perform", "request_clarification"}
ASKS = {"ovs_del_bridge", "ovs_del_flows"}
"""A person is asked about these even where the policy allows everything; without an answer, the request waits."""


@pytest.mark.proves("R004-32")
def test_every_tool_fails_with_its_remedy_and_the_request_goes_on(tmp_path: Path) -> None:
    names = [name for name in CALLS if name not in ENDS | ASKS]
    asked = calls(*(("execute_tool", {"tool_name": name, "arguments": dict(CALLS[name])}) for name in names))
    with ScriptedUpstream([asked, say("Nothing is there.")]) as upstream:
        words = ("--preset", "compact", "--model", "gpt-test", "--upstream", upstream.base_url)
        with bare_host(tmp_path, "psutil", "pyroute2", words=words) as server, server.client() as client:
            messages: list[Any] = [{"role": "user", "content": "look at everything"}]
            answer = client.chat.completions.create(model="gpt-test", messages=messages)
            assert "Traceback" not in server.log()
        results = [message["content"] for message in upstream.bodies[-1]["messages"] if message["role"] == "tool"]
    assert answer.choices[0].message.content == "Nothing is there."
    texts = dict(zip(names, results, strict=True))
    wrong = {name: text for name, text in texts.items() if name not in WORKS and WORDS[name] not in text}
    assert not wrong


@pytest.mark.proves("R004-32")
@pytest.mark.parametrize("name", sorted(ASKS))
def test_a_wide_change_asks_although_its_back_end_is_missing_and_the_gateway_says_so(tmp_path: Path, name: str) -> None:
    asked = calls(("execute_tool", {"tool_name": name, "arguments": dict(CALLS[name])}))
    with ScriptedUpstream([asked]) as upstream:
        words = ("--preset", "compact", "--model", "gpt-test", "--upstream", upstream.base_url)
        with bare_host(tmp_path, words=words) as server, server.client() as client:
            messages: list[Any] = [{"role": "user", "content": "remove it"}]
            answer = client.chat.completions.create(model="gpt-test", messages=messages)
            assert "Traceback" not in server.log()
    assert name in (answer.choices[0].message.content or "")
    assert "needs a person's approval" in (answer.choices[0].message.content or "")
