"""Networks from which an API key is accepted (`docs/reference/api.md#addresses-of-a-key`)."""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from clients.errors import InvalidAddresses

MAX_NETWORKS = 20
# The longest network in text, and room for spaces
MAX_CHARACTERS = MAX_NETWORKS * 50
SEPARATORS = re.compile(r"[\s,;]+")
# Prefixes of IPv4 addresses in IPv6 form
MAPPED_BITS = 96


def parse(text: str) -> list[str]:
    """Return the networks in a text in CIDR notation, without duplicates. Raises InvalidAddresses.

    A single address is a network of one address. Bits after the prefix are cleared.
    """
    networks = list(dict.fromkeys(str(_network(part)) for part in SEPARATORS.split(text) if part))
    if len(networks) > MAX_NETWORKS:
        raise InvalidAddresses(f"Enter at most {MAX_NETWORKS} addresses or networks.")
    return networks


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        # A zone names an interface of one machine.
        network = ip_network(text.replace("%", "?"), strict=False)
    except ValueError:
        raise InvalidAddresses(
            f"“{text[:50]}” is not an IP address or network. Enter one such as 203.0.113.7 or 2001:db8::/32."
        ) from None
    mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
    if mapped is None or network.prefixlen < MAPPED_BITS:
        return network
    return IPv4Network((mapped, network.prefixlen - MAPPED_BITS))


def contains(networks: Iterable[str], address: str | None) -> bool:
    """Return whether an address belongs to one of the networks. An unknown address does not.

    An IPv4 address in IPv6 form counts as the IPv4 address, whatever socket received the request.
    """
    if address is None:
        return False
    found = _plain(ip_address(address))
    return any(found in ip_network(network) for network in networks)


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address contains, or None."""
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address
