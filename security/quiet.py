"""The quiet client of `security.hostile`, in a process of its own: it keeps sending small requests and prints how long each
waited.

    python -m security.quiet 127.0.0.1 8321 /healthz chat

It prints `start latency status` for each request, in seconds of the monotonic clock, which all processes of a machine share;
status 0 means that there was no answer. It ends when its standard input is closed.
"""

from __future__ import annotations

import http.client
import json
import select
import sys
import time

_PAUSE = 0.005
_PATIENCE = 20.0
_CHAT = json.dumps({"model": "practice", "messages": [{"role": "user", "content": "hello"}]})


def main(words: list[str]) -> int:
    host, port, *wanted = words
    number = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        connection = http.client.HTTPConnection(host, int(port), timeout=_PATIENCE)
        for _ in range(10):  # then a new connection, because new ones must be accepted too
            started = time.monotonic()
            status = _asked(connection, wanted[number % len(wanted)])
            print(started, time.monotonic() - started, status, flush=True)
            number += 1
            if status == 0:
                break
            time.sleep(_PAUSE)
        connection.close()
    return 0


def _asked(connection: http.client.HTTPConnection, what: str) -> int:
    """Sends one request. Returns the status; 0: there was no answer."""
    try:
        if what == "chat":
            connection.request("POST", "/v1/chat/completions", _CHAT, {"content-type": "application/json"})
        else:
            connection.request("GET", what)
        response = connection.getresponse()
        response.read()
        return response.status
    except (OSError, http.client.HTTPException):
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
