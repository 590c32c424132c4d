"""`[storage] durable = "answer"`: what was answered is on record, even if the server is killed in the same moment."""

from __future__ import annotations

import http.client
import json
import signal
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.databases import home_url, rows

sys.path.insert(0, str(Path(__file__).parent))

from test_cli_serve import _serving


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
@pytest.mark.parametrize("stream", [False, True])
def test_with_durable_answers_a_server_killed_behind_an_answer_has_it_on_record(tmp_path: Path, stream: bool) -> None:
    asked = {"model": "practice", "messages": [{"role": "user", "content": "hello"}], "stream": stream}
    with _serving(tmp_path, "--catalog", "gym", TOOLCADDIE_STORAGE_DURABLE="answer") as server:
        connection = http.client.HTTPConnection(urlsplit(server.base_url).netloc, timeout=30)
        for _ in range(2):  # the second one finds everything warm
            connection.request("POST", "/v1/chat/completions", json.dumps(asked), {"content-type": "application/json"})
            answer = connection.getresponse()
            body = answer.read()
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(20)
        connection.close()
    assert (answer.status, b"[DONE]" in body) == (200, stream)
    assert rows(home_url(tmp_path), "select count(*) from events where kind = 'run_finished'") == [(2,)]
