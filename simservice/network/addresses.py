"""Rules for webhook addresses: only public internet addresses over HTTPS (`docs/reference/webhooks.md`).

`parse` checks the form of a URL. Before each delivery, `resolve` looks up its host and refuses addresses that are
not public. The delivery uses an address that was checked.
"""

import re
import socket
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from django.conf import settings

from simservice.network import public_names

MAX_URL = 2048
HTTPS_PORT = 443
FIRST_FREE_PORT = 1024
LAST_PORT = 65535
URL = re.compile(r"https://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?\Z", re.IGNORECASE)
AUTHORITY = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>[0-9]{1,5}))?\Z")
IPV4_FORM = re.compile(r"([0-9]{1,3}\.){3}[0-9]{1,3}\Z")

# The ranges that webhooks cannot reach, each with its purpose and its source: IANA's special-purpose registries for
# IPv4 and IPv6, including the globally reachable ranges, which have no receivers of webhooks; multicast; and the
# metadata addresses of clouds.
IPV4 = (
    ("0.0.0.0/8", "this network", "RFC 791"),
    ("10.0.0.0/8", "private use", "RFC 1918"),
    ("100.64.0.0/10", "shared address space of a provider", "RFC 6598"),
    ("127.0.0.0/8", "loopback", "RFC 1122"),
    ("168.63.129.16/32", "metadata and health service of a cloud", "Azure"),
    ("169.254.0.0/16", "link-local, including metadata services of clouds", "RFC 3927"),
    ("172.16.0.0/12", "private use", "RFC 1918"),
    ("192.0.0.0/24", "protocol assignments", "RFC 6890"),
    ("192.0.2.0/24", "documentation", "RFC 5737"),
    ("192.31.196.0/24", "AS112 servers", "RFC 7535"),
    ("192.52.193.0/24", "automatic multicast tunnels", "RFC 7450"),
    ("192.88.99.0/24", "6to4 relays", "RFC 7526"),
    ("192.168.0.0/16", "private use", "RFC 1918"),
    ("192.175.48.0/24", "AS112 servers", "RFC 7534"),
    ("198.18.0.0/15", "benchmarks", "RFC 2544"),
    ("198.51.100.0/24", "documentation", "RFC 5737"),
    ("203.0.113.0/24", "documentation", "RFC 5737"),
    ("224.0.0.0/4", "multicast", "RFC 5771"),
    ("240.0.0.0/4", "reserved, including broadcast", "RFC 1112 and RFC 8190"),
)
IPV6 = (
    ("::/96", "unspecified, loopback or IPv4-compatible", "RFC 4291"),
    ("::ffff:0:0/96", "IPv4-mapped", "RFC 4291"),
    ("::ffff:0:0:0/96", "IPv4-translated", "RFC 2765"),
    ("64:ff9b::/96", "NAT64", "RFC 6052"),
    ("64:ff9b:1::/48", "local-use NAT64", "RFC 8215"),
    ("100::/64", "discard-only", "RFC 6666"),
    ("100:0:0:1::/64", "a dummy prefix", "RFC 9780"),
    # Includes Teredo (2001::/32), benchmarks and ORCHID.
    ("2001::/23", "protocol assignments, including Teredo", "RFC 2928 and RFC 4380"),
    ("2001:db8::/32", "documentation", "RFC 3849"),
    ("2002::/16", "6to4", "RFC 3056"),
    ("2620:4f:8000::/48", "AS112 servers", "RFC 7534"),
    ("3fff::/20", "documentation", "RFC 9637"),
    ("5f00::/16", "segment routing", "RFC 9602"),
    ("fc00::/7", "private use, including metadata services of clouds", "RFC 4193"),
    ("fe80::/10", "link-local", "RFC 4291"),
    ("fec0::/10", "site-local", "RFC 3879"),
    ("ff00::/8", "multicast", "RFC 4291"),
)
# The global unicast addresses; all others are reserved (RFC 4291).
GLOBAL_IPV6 = "2000::/3"
# The third quarter of an ISATAP address, before its IPv4 address (RFC 5214).
ISATAP = (0x00005EFE, 0x02005EFE)
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
        # System services use the ports below 1024.
        if port != HTTPS_PORT and not FIRST_FREE_PORT <= port <= LAST_PORT:
            raise AddressRefused(f"Port {port} is not allowed. Use 443, or a port from 1024 to 65535.")
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


# All addresses of a name are checked, but only this many are tried.
MAX_ADDRESSES = 4


class NotResolved(Exception):
    """The name has no addresses; the message is a sentence for the person who configured it."""


def resolve(target: Target, *, seconds: float) -> list[str]:
    """Return all addresses of a target's host. They are public, unless the target is allowed explicitly.

    Raises AddressRefused or NotResolved.
    """
    try:
        resolved = ask_resolver(target.host, target.port).result(timeout=seconds)
    except TimeoutError:
        raise NotResolved(f"The name {target.host} was not resolved within {seconds:g} seconds.") from None
    except (OSError, UnicodeError):
        resolved = []
    if not resolved:
        raise NotResolved(f"The name {target.host} does not resolve to any address.")
    if not target.is_allowed:
        require_public(resolved)
    return resolved


def ask_resolver(host: str, port: int) -> Future[list[str]]:
    """Return a future of a name's addresses, which can raise OSError or UnicodeError.

    The system's resolver cannot be interrupted, so it runs in a thread that is abandoned if it hangs.
    """
    future: Future[list[str]] = Future()

    def ask() -> None:
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        except (OSError, UnicodeError) as error:
            future.set_exception(error)
        else:
            future.set_result(list(dict.fromkeys(str(entry[4][0]) for entry in entries)))

    threading.Thread(target=ask, name="name-lookup", daemon=True).start()
    return future
