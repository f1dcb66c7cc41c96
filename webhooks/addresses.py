"""Where a webhook may go: public addresses of the internet over HTTPS, and nowhere else.

A URL is judged by its form alone in `parse`; the addresses that its name leads to are judged in `require_public`,
each time a connection is made, and the connection goes to the very address that was judged.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from django.conf import settings

from webhooks.models import MAX_URL
from webhooks.special_ranges import GLOBAL_IPV6, INTERNAL_SUFFIXES, IPV4, IPV6, ISATAP

HTTPS_PORT = 443
FIRST_FREE_PORT = 1024
LAST_PORT = 65535
MAX_NAME = 253
URL = re.compile(r"https://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?\Z", re.IGNORECASE)
AUTHORITY = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>[0-9]{1,5}))?\Z")
LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)\Z")
# What a resolver may take for a part of an IPv4 address.
NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)\Z")
IPV4_FORM = re.compile(r"([0-9]{1,3}\.){3}[0-9]{1,3}\Z")
INTERNATIONAL = "xn--"
# Letters of other alphabets that look like Latin ones: a whole name of them passes for another name.
LOOKALIKES = frozenset("асԁеһіјӏорԛѕԝхуѵαινορυ")  # noqa: RUF001

SPECIAL_IPV4 = [(IPv4Network(network), told, source) for network, told, source in IPV4]
SPECIAL_IPV6 = [(IPv6Network(network), told, source) for network, told, source in IPV6]


class Refused(ValueError):
    """A webhook may not go there; the message is a sentence for the person who configured it."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A URL that webhooks may be sent to, taken apart. `is_allowed` frees it from the rules for addresses."""

    # Without the brackets of an IPv6 address.
    host: str
    port: int
    # Path and query, as they stand in the request.
    path: str
    is_allowed: bool

    @property
    def authority(self) -> str:
        """Return what the request names as its host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == HTTPS_PORT else f"{host}:{self.port}"


def parse(url: str) -> Target:
    """Return the parts of a webhook's URL. Raises Refused."""
    require_plain(url)
    found = URL.match(url)
    if found is None:
        raise Refused("The URL must begin with https:// and have no fragment (#…).")
    if "@" in found["authority"]:
        raise Refused("The URL must not carry a user name or password.")
    parts = AUTHORITY.match(found["authority"])
    if parts is None:
        raise Refused("The URL's host or port is not well formed.")
    host, port = parts["host"].lower(), int(parts["port"] or HTTPS_PORT)
    bare = host.removeprefix("[").removesuffix("]")
    is_allowed = f"{host}:{port}" in settings.WEBHOOK_ALLOWED_ADDRESSES
    if not is_allowed:
        require_port(port)
        require_host(host)
    path = (found["path"] or "/") + (found["query"] or "")
    return Target(host=bare, port=port, path=path, is_allowed=is_allowed)


def require_plain(url: str) -> None:
    """Refuse what is too long, and characters that programs read in different ways."""
    if len(url) > MAX_URL:
        raise Refused(f"The URL is {len(url)} characters long; at most {MAX_URL} are allowed.")
    if not url.isascii():
        raise Refused(
            "The URL has characters beyond ASCII, which may look like others. Write an international name in its "
            "xn-- form, and anything else percent-encoded."
        )
    if re.search(r'[\x00-\x20\x7f\\"<>^`{|}]', url):
        raise Refused("The URL has a space, a control character or another character that no URL may have.")


def require_port(port: int) -> None:
    """Refuse ports of the services that only a system's owner offers, but for HTTPS."""
    if port != HTTPS_PORT and not FIRST_FREE_PORT <= port <= LAST_PORT:
        raise Refused(f"Port {port} is not allowed; use 443, or one from 1024 to 65535.")


def require_host(host: str) -> None:
    """Refuse a host that is no public address in its usual form and no public name."""
    if host.startswith("["):
        require_ipv6(host[1:-1])
    elif NUMBER.match(host.rstrip(".").rpartition(".")[2]):
        require_ipv4(host)
    else:
        require_name(host)


def require_ipv6(text: str) -> None:
    """Refuse what is no public IPv6 address."""
    try:
        address = IPv6Address(text)
    except ValueError:
        raise Refused(f"[{text}] is not an IPv6 address.") from None
    if address.scope_id is not None:
        raise Refused(f"[{text}] names a network interface, which means nothing elsewhere.")
    require_public([str(address)])


def require_ipv4(host: str) -> None:
    """Refuse what is no public IPv4 address in four decimal parts.

    Resolvers also read 127.1, 0x7f.1, 2130706433 and 0177.0.0.1 as addresses.
    """
    try:
        address = IPv4Address(host) if IPV4_FORM.match(host) else None
    except ValueError:
        address = None
    if address is None:
        raise Refused(f"{host} is not a name, and not an IPv4 address in its usual form of four decimal numbers.")
    require_public([str(address)])


def require_name(host: str) -> None:
    """Refuse what is no full name of the public internet."""
    labels = host.split(".")
    if host.endswith("."):
        raise Refused("The host name must not end with a dot.")
    if len(host) > MAX_NAME or not all(LABEL.match(label) for label in labels):
        raise Refused("The host is not a name: parts of letters, digits and hyphens, with dots between them.")
    if labels[-1] in INTERNAL_SUFFIXES:
        raise Refused(f"Names that end in .{labels[-1]} are not public ({INTERNAL_SUFFIXES[labels[-1]]}).")
    if len(labels) < 2:
        raise Refused(f"“{host}” has no dot: it names a machine inside a network, not one of the public internet.")
    for label in labels:
        if label.startswith(INTERNATIONAL):
            require_honest(label)


def require_honest(label: str) -> None:
    """Refuse a part of an international name that passes for another one."""
    try:
        text = label.removeprefix(INTERNATIONAL).encode().decode("punycode")
    except UnicodeError:
        text = ""
    is_word = all(character == "-" or unicodedata.category(character)[0] in "LMN" for character in text)
    if text.isascii() or not is_word or unicodedata.normalize("NFKC", text).casefold() != text:
        raise Refused(f"{label} is not a well-formed part of an international name.")
    alphabets = {alphabet_of(character) for character in text if character.isalpha()}
    if len(alphabets) > 1:
        raise Refused(f"{label} mixes letters of different alphabets, and may look like another name.")
    if all(character in LOOKALIKES or character in "-0123456789" for character in text):
        raise Refused(f"{label} is made of letters that look like Latin ones, and passes for another name.")


def alphabet_of(character: str) -> str:
    """Return the alphabet of a letter; those that are written together count as one."""
    first = unicodedata.name(character, "UNKNOWN").partition(" ")[0].partition("-")[0]
    return "CJK" if first in {"HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"} else first


def require_public(addresses: Iterable[str]) -> None:
    """Refuse unless every one of the addresses is public. Raises Refused naming the first that is not."""
    for text in addresses:
        reason = why_special(ip_address(text))
        if reason:
            raise Refused(f"{text} is not a public address: {reason}.")


def why_special(address: IPv4Address | IPv6Address) -> str | None:
    """Return what kind of address it is that no webhook may go to; None for a public one."""
    if isinstance(address, IPv4Address):
        return next((f"{told} ({source})" for network, told, source in SPECIAL_IPV4 if address in network), None)
    for network, told, source in SPECIAL_IPV6:
        if address in network:
            return f"{told} ({source})"
    if address not in IPv6Network(GLOBAL_IPV6):
        return "not assigned for use in the internet (RFC 4291)"
    if int(address) >> 32 & 0xFFFFFFFF in ISATAP:
        return "an IPv4 address in its ISATAP form (RFC 5214)"
    return None
