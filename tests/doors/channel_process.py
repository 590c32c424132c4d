"""A process that runs a Telegram channel until it is killed: `python -m tests.doors.channel_process URL TOKEN DATABASE HANGS`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from tests.doors.talking import running, talking, telegram_station
from toolcaddie.core.message import ModelRequest
from toolcaddie.testing import say


class _Server:
    """The address of a server of another process."""

    url, token = sys.argv[1:3]


async def main() -> None:
    async def script(request: ModelRequest) -> Any:
        if sys.argv[4] == "hangs":
            print("begun", flush=True)
            await asyncio.Event().wait()
        return say(f"You said: {request.messages[-1].text}")

    server: Any = _Server()
    async with talking(script) as talk, running([telegram_station(server, allow=("1",))], talk, sys.argv[3]):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
