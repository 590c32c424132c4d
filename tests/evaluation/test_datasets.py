"""Labelled requests and tools as they are read from files."""

from __future__ import annotations

import pytest

from toolcaddie.core.errors import ConfigError
from toolcaddie.evaluation.datasets import read_requests, read_tools


def test_a_request_has_its_history_as_messages(tmp_path):
    file = tmp_path / "queries.jsonl"
    file.write_text(
        '{"id": 7, "query": "yes", "history": ["user: freeze it", "assistant: now?"], "gold": ["freeze"], "group": "g"}\n'
        "\n"
        '{"query": "hi", "gold": []}\n'
    )
    first, second = read_requests(file)
    assert [(message.role, message.text) for message in first.messages] == [
        ("user", "freeze it"),
        ("assistant", "now?"),
        ("user", "yes"),
    ]
    assert (first.gold, first.group) == ({"freeze"}, "g")
    assert second.gold == frozenset()
    assert second.group != first.group


def test_tools_may_lack_all_but_a_name(tmp_path):
    file = tmp_path / "tools.jsonl"
    file.write_text('{"name": "yes", "description": null, "parameters": {}, "category": null}\n{"name": "no"}\n')
    assert [tool.name for tool in read_tools(file)] == ["yes", "no"]
    assert read_tools(file)[0].input_schema == {"type": "object", "properties": {}}


def test_a_broken_line_is_named(tmp_path):
    file = tmp_path / "tools.jsonl"
    file.write_text('{"name": "yes"}\n{"description": "no name"}\n')
    with pytest.raises(ConfigError, match=r"tools\.jsonl, line 2: .*name"):
        read_tools(file)
    with pytest.raises(ConfigError, match=r"nowhere\.jsonl: .*name a file"):
        read_requests(tmp_path / "nowhere.jsonl")
