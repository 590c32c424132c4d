"""The attack `python -m security ssrf`, smaller."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from security import ssrf
from toolcaddie.guards.net import ANYWHERE_PUBLIC, GuardedClient


@pytest.mark.proves("R002-104")
def test_no_address_name_or_redirect_leads_inside_and_harmless_ones_are_fetched() -> None:
    for goal in ssrf.attacked(None, quick=True):
        assert goal.met, goal.line()


def unguarded(*, resolver: Any, open_socket: Any, tls: Any, **_: Any) -> GuardedClient:
    """A client that checks URLs, and no address at the socket."""
    connector = aiohttp.TCPConnector(resolver=resolver, socket_factory=open_socket, ssl=tls)
    session = aiohttp.ClientSession(connector=connector)
    return GuardedClient(session, None, reach=ANYWHERE_PUBLIC, seconds=5, max_redirects=5, max_bytes=1_000)


def test_the_attack_notices_a_client_that_does_not_check_the_address_of_a_socket() -> None:
    goals = ssrf.attacked(None, quick=True, make=unguarded)
    assert [goal.met for goal in goals] == [False, False, True]


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "fe80::1%lo", "64:ff9b::7f00:1", "2a00::5efe:127.0.0.1", "224.0.0.1"]
)
def test_the_attack_knows_addresses_inside_without_the_table_under_attack(address: str) -> None:
    assert ssrf.is_inside(address)
    assert not ssrf.is_inside("93.184.215.14")
