"""Rules for webhook addresses: only public internet addresses over HTTPS (`docs/reference/webhooks.md`).

`parse` checks the form of a URL. `require_public` checks the addresses that its host resolves to before each
delivery, and the delivery uses an address that was checked.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from django.conf import settings

from simservice.network import public_names
from simservice.network.special_ranges import GLOBAL_IPV6, IPV4, IPV6, ISATAP

MAX_URL = 2048
HTTPS_PORT = 443
FIRST_FREE_PORT = 1024
LAST_PORT = 65535
URL = re.compile(r"https://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?\Z", re.IGNORECASE)
AUTHORITY = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>[0-9]{1,5}))?\Z")
IPV4_FORM = re.compile(r"([0-9]{1,3}\.){3}[0-9]{1,3}\Z")

SPECIAL_IPV4 = [(IPv4Network(network), purpose, source) for network, purpose, source in IPV4]
SPECIAL_IPV6 = [(IPv6Network(network), purpose, source) for network, purpose, source in IPV6]


class AddressRefused(ValueError):
    """The address is not allowed; the message is a sentence for the person who configured it."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """The parts of an acceptable URL."""

    # Without the brackets of an IPv6 address.
    host: str
    port: int
    # Path and query, as in the request line.
    path: str
    # Whether WEBHOOK_ALLOWED_ADDRESSES exempts it from the rules.
    is_allowed: bool

    @property
    def authority(self) -> str:
        """Return the value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == HTTPS_PORT else f"{host}:{self.port}"


def parse(url: str) -> Target:
    """Return the parts of a webhook's URL. Raises AddressRefused."""
    _require_plain(url)
    match = URL.match(url)
    if match is None:
        raise AddressRefused("The URL must begin with https:// and have no fragment (#…).")
    if "@" in match["authority"]:
        raise AddressRefused("The URL must not contain a user name or password.")
    parts = AUTHORITY.match(match["authority"])
    if parts is None:
        raise AddressRefused("The URL's host or port is malformed.")
    host, port = parts["host"].lower(), int(parts["port"] or HTTPS_PORT)
    bare = host.removeprefix("[").removesuffix("]")
    is_allowed = f"{host}:{port}" in settings.WEBHOOK_ALLOWED_ADDRESSES
    if not is_allowed:
        _require_port(port)
        _require_host(host)
    path = (match["path"] or "/") + (match["query"] or "")
    return Target(host=bare, port=port, path=path, is_allowed=is_allowed)


def _require_plain(url: str) -> None:
    """Refuse a URL that is too long, or contains characters that programs interpret differently."""
    if len(url) > MAX_URL:
        raise AddressRefused(f"The URL must be at most {MAX_URL} characters long; it has {len(url)}.")
    if not url.isascii():
        raise AddressRefused(
            "The URL must contain only ASCII characters. Write an international name in its xn-- form, and "
            "percent-encode all other characters."
        )
    if re.search(r'[\x00-\x20\x7f\\"<>^`{|}]', url):
        raise AddressRefused("The URL contains a space, a control character or another invalid character.")


def _require_port(port: int) -> None:
    """Refuse ports below 1024 except 443, because system services use them."""
    if port != HTTPS_PORT and not FIRST_FREE_PORT <= port <= LAST_PORT:
        raise AddressRefused(f"Port {port} is not allowed. Use 443, or a port from 1024 to 65535.")


def _require_host(host: str) -> None:
    """Refuse a host that is neither a public address in its usual form nor a public name."""
    if host.startswith("["):
        _require_ipv6(host[1:-1])
    elif public_names.looks_like_address(host):
        _require_ipv4(host)
    else:
        try:
            public_names.require(host)
        except public_names.NameRefused as refused:
            raise AddressRefused(str(refused)) from None


def _require_ipv6(text: str) -> None:
    """Refuse anything but a public IPv6 address."""
    try:
        address = IPv6Address(text)
    except ValueError:
        raise AddressRefused(f"[{text}] is not an IPv6 address.") from None
    if address.scope_id is not None:
        raise AddressRefused(f"[{text}] must not name a network interface.")
    require_public([str(address)])


def _require_ipv4(host: str) -> None:
    """Refuse anything but a public IPv4 address of four decimal numbers.

    Resolvers also read 127.1, 0x7f.1, 2130706433 and 0177.0.0.1 as addresses.
    """
    try:
        address = IPv4Address(host) if IPV4_FORM.match(host) else None
    except ValueError:
        address = None
    if address is None:
        raise AddressRefused(f"{host} is neither a name nor an IPv4 address of four decimal numbers.")
    require_public([str(address)])


def require_public(addresses: Iterable[str]) -> None:
    """Raise AddressRefused unless all addresses are public. The message names the first that is not."""
    for text in addresses:
        reason = why_special(ip_address(text))
        if reason:
            raise AddressRefused(f"{text} is not a public address: {reason}.")


def why_special(address: IPv4Address | IPv6Address) -> str | None:
    """Return the purpose of a special address and its source, or None for a public address."""
    if isinstance(address, IPv4Address):
        return next(
            (f"{purpose} ({source})" for network, purpose, source in SPECIAL_IPV4 if address in network), None
        )
    for network, purpose, source in SPECIAL_IPV6:
        if address in network:
            return f"{purpose} ({source})"
    if address not in IPv6Network(GLOBAL_IPV6):
        return "reserved (RFC 4291)"
    if int(address) >> 32 & 0xFFFFFFFF in ISATAP:
        return "ISATAP (RFC 5214)"
    return None
