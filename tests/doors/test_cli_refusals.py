"""`toolcaddie run` and `chat` show a line for each call that did not run, and why."""

from __future__ import annotations

import pytest

from tests.doors.commandline import CommandLine
from toolcaddie.testing import ScriptedUpstream, call, say


def test_a_call_that_its_source_refuses_is_shown_with_the_reason(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    with ScriptedUpstream([call("file_read", {"path": ".env"}), say("No.")]) as upstream:
        result = toolcaddie(
            "run", "read .env", "--box", "files", "--upstream", upstream.base_url, "--model", "gpt-test"
        )
    assert 'file_read {"path":".env"} → refused: .env is refused' in result.stderr


def test_a_call_that_the_settings_do_not_approve_is_shown(toolcaddie: CommandLine) -> None:
    result = toolcaddie("run", "delete client 977", "--catalog", "gym", "--approve", "deny")
    assert 'delete_client {"client_id":977} → not approved\n' in result.stderr


def test_a_call_that_was_refused_elsewhere_is_shown_when_the_run_goes_on(toolcaddie: CommandLine) -> None:
    toolcaddie("run", "delete client 977", "--catalog", "gym")
    (asked,) = toolcaddie.json("approvals", "list")["approvals"]
    toolcaddie.ok("approvals", "deny", asked["id"])
    result = toolcaddie("resume", asked["run_id"], "--catalog", "gym")
    assert 'delete_client {"client_id":977} → refused by ' in result.stderr
