"""Tables of the address ranges that webhooks cannot reach.

The ranges are those of IANA's special-purpose registries for IPv4 and IPv6, including the globally reachable ones,
which have no receivers of webhooks; multicast; and the metadata addresses of clouds.
"""

# Each range with its purpose and its source.
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
