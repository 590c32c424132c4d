"""Two clients for outgoing HTTP requests. `operator_client` is for addresses that the operator of this program has set;
`guarded_client` is for addresses from anyone else, such as a model, a document or a remote server.

The guarded client reaches only the public Internet, and the hosts that the operator names. It checks the IP address for which a
socket is about to be opened, so that no spelling of a URL, no name server and no redirect can get around the check. Earlier
checks of URLs and redirects only give earlier and clearer errors.

The files: `addresses.py` has the table of IP addresses, `reach.py` says where a client may go, `urls.py` reads URLs, `bodies.py`
reads answers up to a limit, `operator.py` and `guarded.py` are the two clients.
"""

from toolcaddie.guards.net.addresses import why_not_public
from toolcaddie.guards.net.bodies import read_capped, read_decoded
from toolcaddie.guards.net.guarded import (
    AddressInfo,
    Fetched,
    GuardedClient,
    OpenSocket,
    connection_reason,
    guarded_client,
)
from toolcaddie.guards.net.operator import CONNECT_SECONDS, MEGABYTE, USER_AGENT, operator_client
from toolcaddie.guards.net.reach import ANYWHERE_PUBLIC, Host, HostPort, Reach, host_matches
from toolcaddie.guards.net.turns import turn
from toolcaddie.guards.net.urls import checked_url

__all__ = [
    "ANYWHERE_PUBLIC",
    "CONNECT_SECONDS",
    "MEGABYTE",
    "USER_AGENT",
    "AddressInfo",
    "Fetched",
    "GuardedClient",
    "Host",
    "HostPort",
    "OpenSocket",
    "Reach",
    "checked_url",
    "connection_reason",
    "guarded_client",
    "host_matches",
    "operator_client",
    "read_capped",
    "read_decoded",
    "turn",
    "why_not_public",
]
