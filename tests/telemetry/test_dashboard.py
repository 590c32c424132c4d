"""The dashboard for Grafana that is shipped: every query of it is answered with the numbers of a real server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.doors.processes import PATIENCE, Process, serving
from tests.telemetry.prometheus import FOLDER, metrics_of, names_in, queried, scraping
from toolcaddie.testing import ScriptedUpstream, call, refuse, say

BOARD = json.loads((FOLDER / "grafana.json").read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
RARE = {"toolcaddie_fallback_answers_total"}
"""Metrics without numbers here: there is no fallback."""
FREEZE = call("freeze_membership", {"client_id": 10137, "days": 3})


def answers(body: Any) -> Any:
    """A model that calls a tool, says that it did something, or refuses, by what it is asked."""
    text = body["messages"][-1]["content"]
    if "fail" in text:
        return refuse(500, "out of order")
    return FREEZE if "freeze" in text else say("I have frozen the membership.")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    (tmp_path / "toolcaddie.toml").write_text('catalogs = ["gym"]\n[limits]\nrounds = 1\n')
    with ScriptedUpstream(answers) as upstream, serving(tmp_path, "--upstream", upstream.base_url) as process:
        yield process


def use(server: Process) -> None:
    """Requests of each kind."""
    client = server.client(timeout=PATIENCE)
    for text in ("freeze the membership of Ahmed", "hello", "please fail"):
        for headers in ({}, {"x-toolcaddie-catalog": "none"}):
            try:
                client.chat.completions.create(
                    model="gpt-test", messages=[{"role": "user", "content": text}], extra_headers=headers
                )
            except openai.APIStatusError:
                assert "fail" in text


def filled(query: str) -> str:
    """The query with the values that Grafana would put in."""
    for name, value in {"$job": "toolcaddie", "$instance": ".*", "$__rate_interval": "5m", "$__range": "1h"}.items():
        query = query.replace(name, value)
    assert "$" not in query
    return query


def test_every_query_reads_metrics_that_a_server_shows_and_their_labels(server: Process) -> None:
    use(server)
    there = metrics_of(server)
    for query in QUERIES:
        assert names_in(query) <= there.keys(), query
    without_numbers = {name for query in QUERIES for name in names_in(query) if not there[name].samples}
    assert without_numbers == RARE


def test_prometheus_answers_every_query_with_numbers_of_a_server(server: Process, tmp_path: Path) -> None:
    waiting = {filled(query) for query in QUERIES if not names_in(query) & RARE}
    with scraping(tmp_path, server) as prometheus:
        deadline = time.monotonic() + 4 * PATIENCE
        while waiting:
            assert time.monotonic() < deadline, f"no numbers for {waiting}"
            use(server)
            waiting -= {query for query in waiting if queried(prometheus, query)}
        for query in QUERIES:
            queried(prometheus, filled(query))


@pytest.mark.parametrize(
    "subject",
    [
        "Requests",
        "Server errors",
        "Duration of requests",
        "Tools sent",
        "Tokens saved",
        "Calls by tool",
        "Calls by outcome",
        "Approvals",
        "Limits reached",
        "Processor",
        "Memory",
        "Duration of writes",
    ],
)
def test_the_dashboard_shows(subject: str) -> None:
    assert any(panel["title"] == subject and panel["targets"] for panel in PANELS)


def test_panels_do_not_cover_each_other_and_use_the_variables_of_the_dashboard() -> None:
    places = [
        (x, y)
        for panel in BOARD["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(places) == len(set(places))
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    assert {each["name"] for each in BOARD["templating"]["list"]} == {"datasource", "job", "instance"}
    for panel in PANELS:
        assert panel["datasource"]["uid"] == "${datasource}"
