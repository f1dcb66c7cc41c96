"""The address ranges that no webhook may go to, as tables.

They are the special-purpose registries of IANA for IPv4 and IPv6 in full, those of their ranges that are reachable
from anywhere too, since no receiver of webhooks is there; multicast; and what clouds answer their own machines at.
"""

# Each range, what it is for, and where that is written.
IPV4 = (
    ("0.0.0.0/8", "this network", "RFC 791"),
    ("10.0.0.0/8", "private use", "RFC 1918"),
    ("100.64.0.0/10", "a provider's shared addresses", "RFC 6598"),
    ("127.0.0.0/8", "loopback", "RFC 1122"),
    ("168.63.129.16/32", "the metadata and health service of a cloud", "Azure"),
    ("169.254.0.0/16", "link-local, where clouds have their metadata", "RFC 3927"),
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
    ("240.0.0.0/4", "reserved, broadcast included", "RFC 1112 and RFC 8190"),
)
IPV6 = (
    ("::/96", "unspecified, loopback or an IPv4 address in its compatible form", "RFC 4291"),
    ("::ffff:0:0/96", "an IPv4 address in its mapped form", "RFC 4291"),
    ("::ffff:0:0:0/96", "an IPv4 address in its translated form", "RFC 2765"),
    ("64:ff9b::/96", "an IPv4 address behind NAT64", "RFC 6052"),
    ("64:ff9b:1::/48", "an IPv4 address behind a local NAT64", "RFC 8215"),
    ("100::/64", "discarded traffic", "RFC 6666"),
    ("100:0:0:1::/64", "a dummy prefix", "RFC 9780"),
    # With Teredo (2001::/32), benchmarks, ORCHID and the rest of its parts.
    ("2001::/23", "protocol assignments, Teredo included", "RFC 2928 and RFC 4380"),
    ("2001:db8::/32", "documentation", "RFC 3849"),
    ("2002::/16", "an IPv4 address in its 6to4 form", "RFC 3056"),
    ("2620:4f:8000::/48", "AS112 servers", "RFC 7534"),
    ("3fff::/20", "documentation", "RFC 9637"),
    ("5f00::/16", "segment routing", "RFC 9602"),
    ("fc00::/7", "private use, where clouds have their metadata too", "RFC 4193"),
    ("fe80::/10", "link-local", "RFC 4291"),
    ("fec0::/10", "site-local", "RFC 3879"),
    ("ff00::/8", "multicast", "RFC 4291"),
)
# All that is assigned for use in the whole internet; what lies outside is reserved (RFC 4291).
GLOBAL_IPV6 = "2000::/3"
# How the second half of an address begins that carries an IPv4 address in its ISATAP form (RFC 5214).
ISATAP = (0x00005EFE, 0x02005EFE)

# Names that mean something inside a network only, or nothing anywhere.
INTERNAL_SUFFIXES = {
    "alt": "RFC 9476",
    "arpa": "RFC 3172, home.arpa RFC 8375",
    "corp": "ICANN's list of name collisions",
    "domain": "a common name of internal networks",
    "example": "RFC 6761",
    "home": "ICANN's list of name collisions",
    "internal": "ICANN's reservation of 2024",
    "intra": "a common name of internal networks",
    "intranet": "RFC 6762, appendix G",
    "invalid": "RFC 6761",
    "lan": "RFC 6762, appendix G",
    "local": "RFC 6762",
    "localdomain": "a common name of the machine itself",
    "localhost": "RFC 6761",
    "mail": "ICANN's list of name collisions",
    "onion": "RFC 7686",
    "private": "RFC 6762, appendix G",
    "svc": "the services of a cluster",
    "test": "RFC 6761",
    "workgroup": "a common name of internal networks",
}
