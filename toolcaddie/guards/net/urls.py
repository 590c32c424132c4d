"""Reads URLs that strangers wrote, and the targets of redirects."""

from __future__ import annotations

import ipaddress
import re

import aiohttp
from yarl import URL

from toolcaddie.guards.net.addresses import why_not_public
from toolcaddie.guards.net.reach import ANYWHERE_PUBLIC, Reach, host_matches
from toolcaddie.guards.net.rules import refused

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NAMED_DOMAINS = 10
"""The largest number of allowed hosts that a message names."""
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\xa0\ud800-\udfff]")
_ENDS_IN_A_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0[xX][0-9a-fA-F]*)\Z")


def checked_url(text: str, reach: Reach = ANYWHERE_PUBLIC) -> URL:
    """Parses a URL that may be fetched: it uses http(s), is within reach, and is understood by all parsers alike.

    Raises `OutboundError` for any other URL. An IP address in the URL is checked at once; the address of a host name is checked
    when the connection is opened.
    """
    text = text.strip()
    if _UNPRINTABLE.search(text) or "\\" in re.split(r"[?#]", text, maxsplit=1)[0]:
        raise refused(
            "url", f"{text!r:.500} is not a URL: spaces, control characters and backslashes must be percent-encoded"
        )
    try:
        return _checked(URL(text), reach)
    except ValueError as error:
        raise refused("url", f"{text!r:.500} is not a URL: {error}") from error


def _checked(url: URL, reach: Reach) -> URL:
    """Returns a URL that may be fetched. Raises `OutboundError` for any other."""
    if url.scheme not in ("http", "https"):
        wrong = f"{url.scheme!r} is neither" if url.scheme else "it begins with neither http:// nor https://"
        raise refused("scheme", f"{shown(url)}: only http and https are fetched, and {wrong}")
    host = (url.host or "").rstrip(".")
    if not host:
        raise refused("url", f"{shown(url)}: the URL names no host")
    reason = _odd_spelling(host)
    if reason is not None:
        raise refused("url", f"{shown(url)} is not fetched: {reason}")
    if not reach.is_private_host(url):
        _check_public(url, host, reach)
    return url


def _check_public(url: URL, host: str, reach: Reach) -> None:
    """Raises `OutboundError` for a host that is not public, or not within reach."""
    reason = why_not_public(host) if _is_address(host) else None
    if reason is not None:
        raise refused("address", f"{shown(url)} is not fetched: the address {host} is not public: {reason}")
    if reach.ports is not None and url.port not in reach.ports:
        ports = ", ".join(map(str, reach.ports))
        raise refused("ports", f"{shown(url)} is not fetched: only the ports {ports} are allowed, not {url.port}")
    if reach.domains and not host_matches(url.raw_host or "", reach.domains):
        domains = ", ".join(reach.domains[:_NAMED_DOMAINS])
        raise refused("domains", f"{shown(url)} is not fetched: only these hosts are allowed: {domains}")


def checked_redirect(source: URL, target: URL, reach: Reach) -> URL:
    """Returns the target of a redirect if it may be fetched, else raises `OutboundError`. A `URL` parses some of its parts only
    when they are read, and raises `ValueError` then."""
    try:
        target = _checked(target, reach)
    except ValueError as error:
        raise refused("url", f"{shown(source)} redirects to something that is not a URL: {error}") from error
    if reach.is_private_host(target) and not reach.is_private_host(source):
        raise refused(
            "redirects", f"{shown(source)} redirects to the private host {shown(target)}, which is not followed"
        )
    return target


def _odd_spelling(host: str) -> str | None:
    """Returns the reason why programs may read a host differently; None: they all read it alike."""
    if _is_address(host):
        return None
    if _ENDS_IN_A_NUMBER.search(host):
        return f"{host!r} is an IP address in a spelling that not all programs read alike; write it as four decimal numbers"
    return "a host name may not contain a percent sign" if "%" in host else None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def redirect_target(response: aiohttp.ClientResponse) -> URL | None:
    """Returns the target of a redirect; None: the answer is no redirect."""
    location = response.headers.get("Location")
    if response.status not in _REDIRECTS or location is None:
        return None
    location = location.strip()
    if _UNPRINTABLE.search(location) or "\\" in location:
        response.close()
        raise refused("url", f"{shown(response.url)} redirects to {location!r:.500}, which is not a URL")
    try:
        return response.url.join(URL(location))
    except ValueError as error:
        response.close()
        raise refused(
            "url", f"{shown(response.url)} redirects to {location!r:.500}, which is not a URL: {error}"
        ) from error


def origin_of(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.host, url.port


def shown(url: URL) -> str:
    """Returns the URL for a message, without user name and password, and without the query, which often contains a key."""
    return str(url.with_user(None).with_query(None).with_fragment(None)) if url.absolute else str(url)
