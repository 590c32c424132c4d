"""Open vSwitch that is changed at the same moment, that answers late, wrongly or not at all."""

from __future__ import annotations

import asyncio
import json
import struct
from pathlib import Path

import pytest

from tests.tools.host.ovs_relay import MOST_FLOOD, flood, relay, speaker
from tests.tools.host.ovs_rig import Machine, console
from toolcaddie.core.errors import ConfigError
from toolcaddie.tools.host.ovs import openflow

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("tool", "arguments", "meanwhile", "left"),
    [
        ("ovs_del_bridge", {"bridge": "br0"}, ("add-port", "br0", "late"), ["p1", "late"]),
        ("ovs_add_port", {"bridge": "br0", "port": "new"}, ("add-port", "br1", "new"), ["p1"]),
        ("ovs_del_port", {"bridge": "br0", "port": "p1"}, ("del-port", "p1"), []),
        ("ovs_add_bridge", {"bridge": "new"}, ("add-br", "new"), ["p1"]),
    ],
)
async def test_a_change_of_what_somebody_else_changes_at_the_same_moment_is_refused(
    ovs: Machine, tool: str, arguments: dict[str, str], meanwhile: tuple[str, ...], left: list[str]
) -> None:
    ovs.vsctl("add-br", "br0", "--", "add-br", "br1", "--", "add-port", "br0", "p1")
    pending = [meanwhile]

    def before(request: bytes) -> None:
        if b'"mutate"' in request and pending:
            ovs.vsctl(*pending.pop())

    path = ovs.folder / "relay.sock"
    async with relay(path, ovs.folder / "db.sock", before), console(ovs, database=f"unix:{path}") as desk:
        text = await desk.failure(tool, **arguments)
    assert "somebody else has changed the bridges at this moment, so nothing was done" in text
    assert sorted(ovs.vsctl("list-ports", "br0")) == sorted(left)
    assert pending == []


async def test_an_echo_of_the_server_is_answered_so_that_the_connection_lasts(tmp_path: Path, ovs: Machine) -> None:
    path = ovs.folder / "echo.sock"
    received: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65_536)
        writer.write(json.dumps({"method": "echo", "params": ['a"\\{'], "id": "probe"}).encode())
        received.put_nowait(await reader.read(65_536))
        writer.close()

    async with await asyncio.start_unix_server(serve, path), console(ovs, database=f"unix:{path}") as desk:
        await desk.failure("ovs_list_bridges")
    assert json.loads(received.get_nowait()) == {"result": ['a"\\{'], "error": None, "id": "probe"}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "the connection was lost"),
        (b"[nonsense]", "an answer is no JSON"),
        (b'{"id":1,"result":"\xff"}', "an answer is no JSON"),
        (b'{"id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "an answer is no JSON"),
        (b'{"id":1,"result":5,"error":null}', "the answer cannot be read"),
        (b'{"id":1,"result":[5],"error":null}', "the answer cannot be read"),
        (b'{"id":1,"result":[{"rows":[]},{"rows":[]},{"rows":[]},{"rows":[]}],"error":null}', "is empty"),
        (b'{"id":1,"result":[{"rows":[7]},{},{},{}],"error":null}', "cannot be read"),
        (b'{"id":1,"result":null,"error":{"error":"unknown database"}}', "refused the request: unknown database"),
        (b'{"id":1,"result":[{"error":"not allowed","details":"no"}],"error":null}', "not allowed: no"),
        (b'{"id":1,"result":["' + b"x" * 5_000_000, "more than 4194304 bytes at once"),
    ],
)
async def test_a_wrong_answer_of_the_database_is_a_failed_result(ovs: Machine, answer: bytes, problem: str) -> None:
    path = ovs.folder / "wrong.sock"
    async with speaker(path, answer), console(ovs, database=f"unix:{path}") as desk:
        assert problem in await desk.failure("ovs_list_bridges")


async def test_a_database_that_does_not_answer_is_given_up_and_asked_again_on_another_connection(
    ovs: Machine,
) -> None:
    ovs.vsctl("add-br", "br0")
    path = ovs.folder / "silent.sock"
    connections = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await reader.read()
        writer.close()

    async with (
        await asyncio.start_unix_server(serve, path),
        console(ovs, database=f"unix:{path}", timeout=0.1) as desk,
    ):
        for _ in range(2):
            assert "has not answered within 0.1 s" in await desk.failure("ovs_list_bridges")
    assert len(connections) == 2


async def test_a_database_that_asks_for_echoes_and_reads_none_fills_no_memory(ovs: Machine) -> None:
    path = ovs.folder / "flood.sock"
    echo = json.dumps({"method": "echo", "params": ["x" * 100_000], "id": "probe"}).encode()
    async with flood(path, echo) as sent, console(ovs, database=f"unix:{path}", timeout=2.0) as desk:
        assert "has not answered within 2 s" in await desk.failure("ovs_list_bridges")
    assert await sent < MOST_FLOOD


def message(kind: int, body: bytes, xid: int) -> bytes:
    return struct.pack("!BBHI", 4, kind, 8 + len(body), xid) + body


HELLO = message(0, b"", 1)
STATS = struct.pack("!HHI", 1, 0, 0)


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ([b""], "the connection to the switch failed"),
        ([message(5, b"", 1)], "this is no OpenFlow switch"),
        ([b"\x04\x00\x00\x00\x00\x00\x00\x00"], "cannot be read"),
        ([HELLO, message(1, struct.pack("!HH", 1, 5), 2)], "refused it: OpenFlow error 1, code 5"),
        ([HELLO, message(1, b"", 2)], "for a reason that cannot be read"),
        ([HELLO, message(19, b"", 2)], "something else than flows"),
        ([HELLO, message(19, STATS + b"\x00\x01", 2)], "flows that cannot be read"),
        ([HELLO, message(19, STATS + b"\x00\x30" + bytes(46), 2)], "a match that cannot be read"),
        ([HELLO, message(19, STATS + b"\x00\x38" + bytes(54), 2)], "a match that cannot be read"),
        (
            [HELLO, message(19, STATS + b"\x00\x38" + bytes(46) + b"\x00\x01\x00\x06\x80\x00\x00\x00", 2)],
            "a field that cannot be read",
        ),
        (
            [HELLO, message(19, STATS + b"\x00\x40" + bytes(46) + b"\x00\x01\x00\x04" + bytes(12), 2)],
            "actions that cannot be read",
        ),
    ],
)
async def test_a_wrong_answer_of_a_switch_is_a_failed_result(ovs: Machine, answers: list[bytes], problem: str) -> None:
    ovs.vsctl("add-br", "br0")
    folder = ovs.folder / "wrong"
    folder.mkdir(exist_ok=True)
    async with speaker(folder / "br0.mgmt", *answers), console(ovs, folder=str(folder)) as desk:
        assert problem in await desk.failure("ovs_dump_flows", bridge="br0")


async def test_a_switch_that_asks_for_echoes_and_reads_none_fills_no_memory(ovs: Machine) -> None:
    ovs.vsctl("add-br", "br0")
    folder = ovs.folder / "flood"
    folder.mkdir(exist_ok=True)
    async with (
        flood(folder / "br0.mgmt", HELLO, message(2, bytes(60_000), 1)) as sent,
        console(ovs, folder=str(folder), timeout=2.0) as desk,
    ):
        assert "has not answered within 2 s" in await desk.failure("ovs_dump_flows", bridge="br0")
    assert await sent < MOST_FLOOD


@pytest.mark.parametrize("database", ["", "db.sock", "unix:db.sock", "ssl:1.2.3.4:6640", "tcp:host", "tcp:host:0"])
def test_an_address_that_is_none_is_refused_at_the_start(database: str) -> None:
    with pytest.raises(ConfigError, match="write unix: and the absolute path"):
        openflow(database=database)
