"""Which headers go on to the upstream, and which come back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolcaddie.ports import RawResponse

_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade "
    b"content-encoding date server".split()
)
_SENT_ON = (b"openai-organization", b"openai-project", b"openai-beta", b"x-request-id")
_SENT_ON_ONCE = (*_SENT_ON, b"idempotency-key")
"""Only where one request becomes exactly one: a run asks several times, and each is another question."""
_OUR_KEY = "tc_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Onward:
    """Of a client's headers only those the upstream should know. `own_key`: the upstream is asked with a key of ours."""

    own_key: bool

    def headers(self, found: Mapping[bytes, bytes], *, keyed: bool, once: bool = False) -> dict[str, str]:
        """The client's own Authorization goes on only where neither side of the gateway has keys, and one of ours never.

        `keyed`: it is a key of the gateway's. `once`: the request becomes exactly one to the upstream.
        """
        names = _SENT_ON_ONCE if once else _SENT_ON
        sent = {name.decode(): found[name].decode("latin-1") for name in names if name in found}
        theirs = found.get(b"authorization", b"").decode("latin-1")
        if theirs and not keyed and not self.own_key and _OUR_KEY not in theirs:
            sent["authorization"] = theirs
        return sent


def answered_headers(response: RawResponse) -> list[tuple[bytes, bytes]]:
    """The upstream's headers for the client, without those of the connection they came over."""
    pairs = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.headers.items()]
    # An encoded body has been decoded on its way in, so that its length is another.
    dropped = _HOP_BY_HOP if b"content-encoding" not in dict(pairs) else {*_HOP_BY_HOP, b"content-length"}
    return [pair for pair in pairs if pair[0] not in dropped]
