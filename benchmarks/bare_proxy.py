"""A proxy that only passes requests on, with the same server and client libraries as the gateway: the baseline for the gateway's
cost.

python -m benchmarks.bare_proxy --upstream http://127.0.0.1:9000/v1 --port 9001
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import aiohttp
import uvicorn


def proxy(upstream: str) -> Callable[..., Any]:
    """Returns an ASGI application that sends each request to `upstream` and passes the answer on piece by piece."""
    session: list[aiohttp.ClientSession] = []

    async def app(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        if not session:
            session.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        path = scope["path"].removeprefix("/v1")
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        async with session[0].request(scope["method"], upstream + path, data=body, headers=headers) as answer:
            kind = [(b"content-type", answer.headers["content-type"].encode())]
            await send({"type": "http.response.start", "status": answer.status, "headers": kind})
            async for piece in answer.content.iter_any():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--port", type=int, default=9001)
    options = parser.parse_args()
    uvicorn.run(
        proxy(options.upstream),
        port=options.port,
        http="httptools",
        loop="uvloop",
        lifespan="off",
        log_level="error",
        access_log=False,
    )


if __name__ == "__main__":
    main()
