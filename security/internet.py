"""An Internet of one process: names with addresses of our choice, and sockets that lead to a local server. Nothing is sent to a
network.

    wire = Wire(port)
    async with guarded_client(resolver=Names({"inside.test": [["10.0.0.1"]]}), open_socket=wire) as client: ...
    wire.addresses  # every address for which the client opened a socket
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from toolcaddie.guards.net import AddressInfo

PUBLIC = "93.184.215.14"
"""The address of every name that has no other."""

_TLS = 443

Handler = Callable[[web.Request], web.StreamResponse]


@asynccontextmanager
async def served(answer: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Yields the port of a loopback server that answers everything by `answer`. `tls`: its certificate; None: it speaks http."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return answer(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class Names(AbstractResolver):
    """A name server: a list of answers per name, the last repeats; unknown names are public ones."""

    def __init__(self, answers: Mapping[str, Sequence[Sequence[str]]] | None = None) -> None:
        self._answers = {name.lower(): list(rounds) for name, rounds in (answers or {}).items()}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        addresses = self._addresses(host)
        if not addresses:
            raise OSError(errno.ENOENT, f"no address of {host}")
        return [self._result(host, address, port) for address in addresses]

    async def close(self) -> None:
        pass

    def _addresses(self, host: str) -> Sequence[str]:
        try:  # what the system's own resolver makes of 127.1, 0x7f000001 and their like
            return [socket.inet_ntoa(socket.inet_aton(host))]
        except OSError:
            answers = self._answers.get(host.lower(), [[PUBLIC]])
            return answers.pop(0) if len(answers) > 1 else answers[0]

    @staticmethod
    def _result(host: str, address: str, port: int) -> ResolveResult:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return ResolveResult(
            hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST
        )


class Wire:
    """Opens sockets for a guarded client: notes the address, then diverts to a loopback port, or goes nowhere. `tls_port`: where
    sockets for port 443 lead to; None: to the same port."""

    def __init__(self, port: int | None = None, *, tls_port: int | None = None) -> None:
        self.addresses: list[str] = []
        self._port = port
        self._tls_port = port if tls_port is None else tls_port

    def __call__(self, address: AddressInfo) -> socket.socket:
        self.addresses.append(address[4][0])
        port = self._tls_port if address[4][1] == _TLS else self._port
        if port is None:
            raise OSError(errno.ENETUNREACH, "no network in tests")
        diverted = Diverted(address[0], socket.SOCK_STREAM)
        diverted.port = port
        return diverted


class Diverted(socket.socket):
    port = 0

    def connect(self, address: Any) -> None:
        super().connect(("127.0.0.1" if self.family == socket.AF_INET else "::ffff:127.0.0.1", self.port))


def certificates(hosts: Collection[str]) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Returns what a server needs that speaks TLS for these hosts, and what a client needs that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a small Internet")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    certificate = (
        builder.not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(Encoding.PEM)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(pem + secret)
        file.flush()
        server.load_cert_chain(file.name)
    return server, ssl.create_default_context(cadata=pem.decode())


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
