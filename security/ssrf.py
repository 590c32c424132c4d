"""Addresses that lead inside: `web_fetch` opens no socket outside the public Internet, whatever a URL, a name server or a
redirect says, and fetches every harmless address that no written rule refuses.

Nothing is sent to a network. Names resolve as `ssrf_dns.json` says, other names to one public address, and every socket leads to
a local server, which answers with the redirects of `ssrf_redirects.jsonl`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from yarl import URL

from security.corpora import texts_of
from security.goals import Goal, none_of
from security.internet import Names, Wire, certificates, served
from toolcaddie import Runtime
from toolcaddie.core.tool import ToolResult
from toolcaddie.guards.net import GuardedClient, guarded_client
from toolcaddie.parts import Parts
from toolcaddie.testing import ScriptedProvider
from toolcaddie.tools.web.settings import FetchSettings
from toolcaddie.tools.web.source import WebSource

Answers = Mapping[str, Sequence[Sequence[str]]]
"""For each name, the addresses of each look-up; the last ones repeat."""

Redirects = Sequence[tuple[str, Sequence[Mapping[str, Any]]]]
"""URLs with the answers of their hosts, one after the other."""

_INSIDE = ("127.0.0.1", "169.254.169.254", "10.0.0.1", "0.0.0.0", "::1", "fd00:ec2::254", "::ffff:127.0.0.1")
OWN_NAMES: Answers = {
    **{f"inside-{number}.test": [[address]] for number, address in enumerate(_INSIDE)},
    **{f"rebinds-{number}.test": [["93.184.215.14"], [address]] for number, address in enumerate(_INSIDE)},
    **{f"mixed-{number}.test": [["93.184.215.14", address]] for number, address in enumerate(_INSIDE)},
    "localhost": [["127.0.0.1", "::1"]],
    "metadata.google.internal": [["169.254.169.254"]],
    "nat64.test": [["64:ff9b::a9fe:a9fe"]],
    "tunnel.test": [["2002:7f00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2a00:1450::5efe:127.0.0.1"]],
}
_SPELLINGS = (
    *(
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "0",
        "0.0.0.0",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
    ),
    *(
        "127.0.0.1.",
        "127.000.000.001",
        "0x7f.0.0.0x1",
        "①②⑦.⓪.⓪.①",
        "１２７．０．０．１",
        "127。0。0。1",
        "127.0.0.1%00",
    ),
    *("169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "169.16689662"),
    *("10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
    *(
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "198.51.100.1",
        "203.0.113.1",
        "192.88.99.1",
    ),
    *(
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[::ffff:0:127.0.0.1]",
    ),
    *("[64:ff9b::7f00:1]", "[64:ff9b:1::a9fe:a9fe]", "[2002:7f00:1::]", "[2001:0:4136:e378:8000:63bf:3fff:fdd2]"),
    *(
        "[fe80::1]",
        "[fe80::1%25eth0]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fec0::1]",
        "[ff02::1]",
        "[100::1]",
        "[5f00::1]",
    ),
    *(
        "[2001:db8::1]",
        "[3fff::1]",
        "[2a00:1450::200:5efe:10.0.0.1]",
        "localhost",
        "LOCALHOST.",
        "metadata.google.internal",
    ),
)
"""Ways to write an address inside."""
OWN_URLS = (
    *(f"http://{host}/" for host in (*_SPELLINGS, *OWN_NAMES)),
    *(f"https://{host}:443/x?y#z" for host in _SPELLINGS),
    *(f"http://user:pass@{host}/" for host in _SPELLINGS[:10]),
    *(f"http://example.com@{host}/" for host in _SPELLINGS[:10]),
    *(
        f"{scheme}://127.0.0.1/"
        for scheme in ("ftp", "file", "gopher", "dict", "ldap", "sftp", "tftp", "jar:http", "ws")
    ),
    *(
        "file:///etc/passwd",
        "data:text/plain,x",
        "javascript:1",
        "//127.0.0.1/",
        "///127.0.0.1",
        "127.0.0.1",
        "localhost:80",
    ),
    *(
        "http:127.0.0.1",
        "http:/127.0.0.1",
        "http:///127.0.0.1",
        "http:\\\\127.0.0.1",
        "http://example.com\\@127.0.0.1/",
    ),
    *("http://127.0.0.1\\@example.com/", "http://example.com#@127.0.0.1/", "http://127.0.0.1#@example.com/"),
    *(
        "http://exa\tmple.com@127.0.0.1",
        "http://127.0.0.1\r\nHost: example.com/",
        " http://127.0.0.1/",
        "http://\u200b127.0.0.1/",
    ),
    *(
        "http://[::1",
        "http://[::1]x/",
        "http://127.0.0.1:80:80/",
        "http://127.0.0.1:99999/",
        "http://",
        "http://@/",
        "http://:80",
    ),
)
_TARGETS = (
    *(f"http://{host}/" for host in _SPELLINGS[:24]),
    *("http://inside-0.test/", "//[::1]/", "file:///etc/passwd", "/\\[::1]/"),
)
OWN_REDIRECTS: Redirects = (
    *(
        (f"http://hop-{number}-{status}.test/", ({"status": status, "location": target},))
        for number, target in enumerate(_TARGETS)
        for status in (300, 301, 302, 303, 307, 308)
    ),
    ("http://refresh.test/", ({"status": 200, "headers": {"Refresh": "0; url=http://127.0.0.1/"}},)),
    ("http://location.test/", ({"status": 200, "headers": {"Location": "http://127.0.0.1/"}},)),
)
OWN_ALLOWED = (
    *(
        "http://example.com/",
        "https://example.com/a?b=c#d",
        "http://example.com./",
        "http://EXAMPLE.com:80/",
        "https://example.com:443",
    ),
    *(
        "http://8.8.8.8/",
        "http://100.128.0.1/",
        "http://[2606:4700::1111]/",
        "http://münchen.de/",
        "http://user@example.com/",
    ),
    *("https://example.com/?u=http://127.0.0.1/", "http://127.0.0.1.example.com/", "http://localhost.example.com/"),
    *("http://example.com:8080/", "http://example.com/a%20b?c=%00"),
)
_TRIES = 3
"""Fetches of each hostile URL, because a name may have another address the next time."""


MakeClient = Callable[..., GuardedClient]


def attacked(corpora: Path | None, *, quick: bool, make: MakeClient = guarded_client) -> Sequence[Goal]:
    """Tries our own addresses, and those of the files `ssrf_*` if they are there. `make`: makes the client that is attacked."""
    tries = 1 if quick else _TRIES
    goals = asyncio.run(_tried("ours", OWN_URLS, OWN_REDIRECTS, OWN_ALLOWED, OWN_NAMES, tries, make))
    urls, allowed = texts_of(corpora, "ssrf_urls.txt"), texts_of(corpora, "ssrf_allow.txt")
    if urls is None or allowed is None or corpora is None:
        return goals
    names, redirects = _names_of(corpora / "ssrf_dns.json"), _redirects_of(corpora / "ssrf_redirects.jsonl")
    return [*goals, *asyncio.run(_tried("of the files ssrf_*", urls, redirects, allowed, names, tries, make))]


def _names_of(file: Path) -> Answers:
    return {} if not file.is_file() else dict(json.loads(file.read_text()))


def _redirects_of(file: Path) -> Redirects:
    if not file.is_file():
        return []
    return [(case["url"], case["hops"]) for case in map(json.loads, file.read_text().splitlines())]


@dataclass(slots=True, kw_only=True)
class _World:
    """The small Internet in which a URL is tried."""

    answers: Answers
    hops: Mapping[str, Sequence[Mapping[str, Any]]]
    names: Names = field(default_factory=Names)
    wire: Wire = field(default_factory=Wire)
    served: int = 0
    """Requests that were answered with a page since the last `begin`."""
    steps: int = 0

    def begin(self, ports: tuple[int, int]) -> None:
        self.names = Names(self.answers)
        self.wire = Wire(ports[0], tls_port=ports[1])
        self.served = self.steps = 0

    def answer(self, request: web.Request) -> web.Response:
        chain = self.hops.get(request.host.partition(":")[0].lower())
        if chain is None or self.steps >= len(chain):
            self.served += 1
            return web.Response(text="a page")
        hop = chain[self.steps]
        self.steps += 1
        location = hop.get("location")
        headers = {**({"Location": _sendable(location)} if location is not None else {}), **hop.get("headers", {})}
        return web.Response(status=hop["status"], headers=headers, text=hop.get("body"))


def _sendable(location: str) -> str:
    """Returns a location without the signs that no server can send in a header."""
    return re.sub(r"[\r\n\0]", "", location).encode("utf-8").decode("latin-1")


async def _tried(
    what: str,
    urls: Sequence[str],
    redirects: Redirects,
    allowed: Sequence[str],
    names: Answers,
    tries: int,
    make: MakeClient,
) -> list[Goal]:
    world = _World(answers=names, hops={_host(url): hops for url, hops in redirects})
    server_tls, client_tls = certificates(
        {_host(url) for url in allowed if url.startswith("https:")} or {"example.com"}
    )

    def client(**options: Any) -> GuardedClient:
        return make(resolver=world.names, open_socket=world.wire, tls=client_tls, **options)

    source = WebSource(None, fetch=FetchSettings(cache_ttl=0, timeout=5), parts=Parts(guarded_client=client))
    async with (
        served(world.answer) as port,
        served(world.answer, server_tls) as tls_port,
        Runtime(provider=ScriptedProvider([]), sources=[source]) as runtime,
    ):
        fetching = _Fetching(runtime=runtime, world=world, ports=(port, tls_port))
        inside = [url for url in urls if await fetching.opens_inside(url, tries)]
        led_inside = [url for url, _ in redirects if await fetching.opens_inside(url, tries)]
        outcomes = [await fetching.outcome(url) for url in allowed]
    for url in (*inside, *led_inside):
        print(f"opened a socket to an address that is not public: {url!r}")
    return [
        none_of(f"URLs {what} that opened a socket outside the public Internet", len(inside), len(urls)),
        none_of(f"redirects {what} that opened a socket outside the public Internet", len(led_inside), len(redirects)),
        _allowed_goal(f"harmless URLs {what} that were fetched, or that a written rule refuses", outcomes, allowed),
    ]


def _allowed_goal(name: str, outcomes: Sequence[str], urls: Sequence[str]) -> Goal:
    """Returns the goal of harmless URLs. An outcome is `fetched`, the name of a rule, or empty."""
    counts = Counter(outcomes)
    for url, outcome in zip(urls, outcomes, strict=True):
        if outcome != "fetched":
            print(f"not fetched: {url!r} (rule {outcome or 'NONE'})")
    rules = ", ".join(f"{rule} {number:,}" for rule, number in counts.items() if rule not in ("fetched", ""))
    return Goal(
        name=name,
        figure=f"{counts['fetched']:,} fetched, {rules or '0'} refused by a rule, of {len(outcomes):,}",
        goal="all",
        met=counts[""] == 0 < counts["fetched"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fetching:
    """Calls `web_fetch` as a model would."""

    runtime: Runtime
    world: _World
    ports: tuple[int, int]

    async def opens_inside(self, url: str, tries: int) -> bool:
        """Returns True if a fetch opened a socket to an address that is not public."""
        self.world.begin(self.ports)
        for _ in range(tries):
            await self._call(url)
        return any(map(is_inside, self.world.wire.addresses))

    async def outcome(self, url: str) -> str:
        """Returns `fetched`, the name of the rule that refused the URL, or nothing if it failed otherwise."""
        self.world.begin(self.ports)
        result = await self._call(url)
        if not result.is_error and self.world.served == 1:
            return "fetched"
        rule = re.search(r"\(rule '(\w+)'\)", result.text)
        return "" if rule is None else rule[1]

    async def _call(self, url: str) -> ToolResult:
        self.world.steps = 0
        return await self.runtime.call("web_fetch", {"url": url})


def _host(url: str) -> str:
    try:
        return (URL(url).raw_host or "").lower().rstrip(".")
    except ValueError:
        return ""


_TUNNELS = tuple(
    map(
        ipaddress.ip_network,
        (
            "64:ff9b::/96",
            "64:ff9b:1::/48",
            "2002::/16",
            "2001::/23",
            "::/96",
            "::ffff:0:0/96",
            "::ffff:0:0:0/96",
            "fec0::/10",
        ),
    )
)
_OTHERS = tuple(
    map(ipaddress.ip_network, ("168.63.129.16/32", "192.88.99.0/24", "192.0.0.0/24", "3fff::/20", "5f00::/16"))
)


def is_inside(address: str) -> bool:
    """Returns True for an address that is not public. This table is not the one of the product, which is under attack."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if not parsed.is_global or parsed.is_multicast or ":5efe:" in parsed.exploded.replace(":0000:5efe:", ":5efe:"):
        return True
    return any(parsed in network for network in (*_TUNNELS, *_OTHERS))
