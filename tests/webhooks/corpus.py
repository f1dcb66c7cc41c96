"""URLs that webhooks must refuse or accept, collected by hand from registries and from known disguises."""

from ipaddress import IPv4Address, IPv6Address

# The first and the last address of each special-purpose range, and well-known addresses in between.
IPV4 = """
0.0.0.0 0.0.0.1 0.255.255.255 10.0.0.0 10.0.0.1 10.255.255.255 100.64.0.0 100.64.0.1 100.100.100.200
100.127.255.255 127.0.0.0 127.0.0.1 127.0.0.53 127.1.2.3 127.255.255.255 168.63.129.16 169.254.0.0 169.254.169.254
169.254.170.2 169.254.169.123 169.254.255.255 172.16.0.0 172.16.0.1 172.17.0.1 172.31.255.255 192.0.0.0 192.0.0.1
192.0.0.8 192.0.0.9 192.0.0.10 192.0.0.170 192.0.0.171 192.0.0.192 192.0.0.255 192.0.2.0 192.0.2.255 192.31.196.0
192.31.196.255 192.52.193.0 192.52.193.255 192.88.99.0 192.88.99.1 192.88.99.2 192.88.99.255 192.168.0.0
192.168.0.1 192.168.1.1 192.168.255.255 192.175.48.0 192.175.48.255 198.18.0.0 198.19.255.255 198.51.100.0
198.51.100.255 203.0.113.0 203.0.113.255 224.0.0.0 224.0.0.251 239.255.255.250 239.255.255.255 240.0.0.0 250.1.2.3
255.255.255.254 255.255.255.255
""".split()
IPV6 = """
:: ::1 ::2 ::127.0.0.1 ::10.0.0.1 ::8.8.8.8 ::ffff:0.0.0.0 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:ffff:ffff
::ffff:0:0:0 ::ffff:0:127.0.0.1 64:ff9b:: 64:ff9b::8.8.8.8 64:ff9b::127.0.0.1 64:ff9b::ffff:ffff 64:ff9b:1::
64:ff9b:1::10.0.0.1 64:ff9b:1:ffff:ffff:ffff:ffff:ffff 100:: 100::1 100::ffff:ffff:ffff:ffff 100:0:0:1::
100:0:0:1:ffff:ffff:ffff:ffff 2001:: 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:1::1 2001:1::2 2001:1::3 2001:2::
2001:2:0:ffff:ffff:ffff:ffff:ffff 2001:3:: 2001:4:112:: 2001:5:: 2001:10:: 2001:1f:ffff:ffff:ffff:ffff:ffff:ffff
2001:20:: 2001:2f:ffff:ffff:ffff:ffff:ffff:ffff 2001:30:: 2001:3f:ffff:ffff:ffff:ffff:ffff:ffff
2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff 2001:db8:: 2001:db8::1 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff 2002::
2002:7f00:1::1 2002:a00:1:: 2002:a9fe:a9fe:: 2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff 2620:4f:8000::
2620:4f:8000::1 2620:4f:8000:ffff:ffff:ffff:ffff:ffff 3fff:: 3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff 5f00::
5f00:ffff::1 fc00:: fc00::1 fd00::1 fd00:ec2::254 fd20:ce::254 fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff fe80::
fe80::1 febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff fec0:: fec0::1 feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ff00::
ff02::1 ff0e::1 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 4000:: 8000::1 1fff::1 0:1::1 200::1 fe00::1
2606:4700::5efe:10.0.0.1 2606:4700::200:5efe:127.0.0.1 2a00:1450:4001:800:0:5efe:169.254.169.254
""".split()
# IPv4 addresses to embed in IPv6 addresses.
INSIDE = ("127.0.0.1", "10.0.0.1", "169.254.169.254", "172.16.0.1", "192.168.0.1", "168.63.129.16", "100.64.0.1")


def embedded(text: str) -> list[str]:
    """Return an IPv4 address in each of its IPv6 forms."""
    number = int(IPv4Address(text))
    wide = [number, 0xFFFF << 32 | number, 0xFFFF << 48 | number]
    wide += [0x64FF9B << 96 | number, 0x64FF9B0001 << 80 | number, 0x2002 << 112 | number << 80 | 1]
    wide += [0x20010000 << 96 | number ^ 0xFFFFFFFF, 0x2606470000000000 << 64 | 0x5EFE << 32 | number]
    wide += [0x20010000 << 96 | number << 64, 0x2606470000000000 << 64 | 0x02005EFE << 32 | number]
    return [str(IPv6Address(address)) for address in wide]


def spelled(address: str) -> str:
    return f"[{address}]" if ":" in address else address


ADDRESSES = sorted({*IPV4, *IPV6, *(form for text in INSIDE for form in embedded(text))})

# Other spellings of addresses that a resolver, a browser or a library may accept.
ODD_HOSTS = """
127.1 127.0.1 127.0.0.1. 127.1. 0 0. 0x0 1 00 127 2130706433 2130706433. 017700000001 0177.0.0.1 0177.1 0x7f.1
0x7f.0.0.1 0x7f.0x0.0x0.0x1 0X7F.0.0.1 0x7f000001 0X7f000001 0x7F000001. 127.0.0.01 127.0.0.0x1 127.000.000.001
0127.0.0.1 127.0.0.1.1 256.256.256.256 127.0.0.256 8.8.8.8. 08.8.8.8 8.8.8 8.8 134744072 0x08080808
010.010.010.010 3232235521 0xc0a80001 0300.0250.0.1 192.168.257 192.11010049 10.1 012.1 0xa.1 167772161 0xa000001
169.254.43518 0xa9fea9fe 2852039166 0251.0376.0251.0376 0xA9.0xFE.0xA9.0xFE 169.0xfea9fe 4294967295 4294967296
127.0.0.1,8.8.8.8 1.2.3.4.5 1e3 0x 0x.0x 1.0x 127..1 .127.0.0.1 -1 127.0.0.-1 +127.0.0.1 [127.0.0.1]
[::ffff:127.1] [::1]. [::1%25lo] [::1%lo] [fe80::1%25eth0] [::1/128] [0:0:0:0:0:0:0:1]
[0000:0000:0000:0000:0000:0000:0000:0001] [::0001] [::ffff:7f00:1] [::ffff:0x7f.0.0.1] [0:0:0:0:0:ffff:127.0.0.1]
[::FFFF:127.0.0.1] [2002:7F00:0001::] [v1.::1] [] [[::1]] [::1 ::1] ::1 0:0:0:0:0:0:0:1 %31%32%37.0.0.1
127%2e0%2e0%2e1 %6cocalhost localhost%00.example.com localhost%2eexample.com 127.0.0.1%23.example.com
example.com%40127.0.0.1 example.com\\@127.0.0.1 127.0.0.1\\.com
""".split()
NAMES = """
localhost LOCALHOST localhost. LocalHost. localhost.localdomain ip6-localhost ip6-loopback foo.localhost
a.b.localhost foo.localhost. server.local printer.local. host.docker.internal metadata.google.internal
gateway.internal db.corp mail.corp. router.home nas.home.arpa router.lan intranet portal.intranet www.private
app.test app.invalid www.example abc.onion x.alt 1.0.0.127.in-addr.arpa ip6.arpa kubernetes.default.svc api.svc
svc.cluster.local metadata instance-data wpad db redis postgres web a hidden.workgroup site.domain x.intra y.mail
under_score.com -dash.com dash-.com a..com .com com. .. . a.b..c com example
""".split()
NAMES += ["x" * 64 + ".com", "a." * 127 + "com", "*.com", "a,b.com", "a;b.com", "a&b.com", "a+b.com", "a=b.com"]
INTERNATIONAL = [
    "lосаlhost",  # Cyrillic letters
    "localhоst.com",
    "ｌocalhost",
    "ｅxample.com",
    "１２７.0.0.1",
    "127。0。0。1",
    "127．0．0．1",
    "①②⑦.0.0.1",
    "ⓔⓧⓐⓜⓟⓛⓔ.com",
    "example。com",
    "exam\u00adple.com",
    "exam\u200bple.com",
    "exam\u2060ple.com",
    "example\u2024com",
    "\u202eexample.com",
    "аррӏе.com",
    "münchen.de",
    "fa\u017f\u017f.com",
    "stra\u00dfe.de",
    "١٢٧.٠.٠.١",
    "example.com\u2044.evil.com",
    "example.com\uff0fevil.com",
    "a\u0338.com",
    "xn--80ak6aa92e.com",  # apple, in Cyrillic letters
    "xn--pple-43d.com",  # apple, with one Cyrillic letter
    "xn--ggle-55da.com",  # google, with two
    "xn--a.com",
    "xn--.com",
    "xn--abc-.com",
    "xn--localhost-.com",
    "xn--zzzzzzzzzzzzzz99999.com",
    "xn--127-.0.0.1",
]
PUBLIC = "hooks.example.com"
PORTS = [
    "0",
    "1",
    "22",
    "25",
    "53",
    "80",
    "110",
    "442",
    "444",
    "993",
    "1023",
    "65536",
    "99999",
    "100000",
    "-1",
    "+443",
]
PORTS += ["0x1bb", "4e2", "443:443", " 443", "443 ", "\u0664\u0664\u0663"]
FORMS = [
    "",
    " ",
    "https:",
    "https:/",
    "https://",
    "https:///",
    "https:///path",
    "https://?x",
    "https://#x",
    f"//{PUBLIC}/",
    f"{PUBLIC}/",
    f"http://{PUBLIC}/",
    f"HTTP://{PUBLIC}/",
    f"http://{PUBLIC}:443/",
    f"ftp://{PUBLIC}/",
    f"wss://{PUBLIC}/",
    f"file://{PUBLIC}/etc/passwd",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "javascript:alert(1)",
    "data:text/plain,x",
    f"httpss://{PUBLIC}/",
    f"https:{PUBLIC}/",
    f"https:/{PUBLIC}/",
    f"https:\\\\{PUBLIC}\\",
    f"https://{PUBLIC}\\@127.0.0.1/",
    f"https://{PUBLIC}\\.127.0.0.1/",
    f" https://{PUBLIC}/",
    f"https://{PUBLIC}/ ",
    f"https://{PUBLIC}/\n",
    f"https://{PUBLIC}\n/",
    f"https://{PUBLIC}/\r\nHost: 127.0.0.1",
    f"https://{PUBLIC}/\tx",
    f"https://{PUBLIC}/\0",
    f"https://{PUBLIC}/\x7f",
    f"https://{PUBLIC}/ HTTP/1.1",
    f"https://{PUBLIC}/#fragment",
    f"https://{PUBLIC}#@127.0.0.1/",
    f"https://{PUBLIC}/<script>",
    f"https://{PUBLIC}/`x`",
    f"https://{PUBLIC}/{{x}}",
    f"https://{PUBLIC}/\u00e9",
    f"https://user@{PUBLIC}/",
    f"https://user:password@{PUBLIC}/",
    f"https://@{PUBLIC}/",
    f"https://:@{PUBLIC}/",
    f"https://{PUBLIC}@127.0.0.1/",
    f"https://{PUBLIC}:443@127.0.0.1/",
    f"https://127.0.0.1@{PUBLIC}/",
    f"https://{PUBLIC}%40127.0.0.1/",
    f"https://{PUBLIC}/{'x' * 3000}",
    f"https://{'a.' * 1500}com/",
    f"https://{PUBLIC}/?{'x' * 2048}",
]

REFUSED = [
    *FORMS,
    *(f"https://{spelled(address)}/" for address in ADDRESSES),
    *(f"https://{spelled(address)}:8443/hook" for address in (*INSIDE, "::1", "fd00:ec2::254")),
    *(f"https://{host}/" for host in (*ODD_HOSTS, *NAMES, *INTERNATIONAL)),
    *(f"https://{PUBLIC}:{port}/" for port in PORTS),
]
ACCEPTED = [
    f"https://{PUBLIC}",
    f"https://{PUBLIC}/",
    f"HTTPS://{PUBLIC.upper()}/Path",
    f"https://{PUBLIC}:443/",
    f"https://{PUBLIC}:1024/",
    f"https://{PUBLIC}:8443/a/b?c=d&e=%20",
    f"https://{PUBLIC}:65535/",
    f"https://{PUBLIC}?x=y",
    "https://a.co/",
    "https://1.example.com/",
    "https://3com.com/",
    "https://a-b.c-d.example.com/",
    "https://localhost.example.com/",
    "https://127.0.0.1.nip.example.com/",
    "https://xn--mnchen-3ya.de/",
    "https://xn--bcher-kva.example.com/",
    "https://xn--fiqs8s.cn/",
    "https://xn--e1aybc.xn--p1ai/",
    "https://8.8.8.8/",
    "https://1.1.1.1:8443/",
    "https://[2606:4700:4700::1111]/",
    "https://[2a00:1450:4001:800::200e]:8443/",
    "https://100.63.255.255/",
    "https://100.128.0.0/",
    "https://172.32.0.0/",
    "https://9.255.255.255/",
    "https://11.0.0.0/",
    "https://223.255.255.255/",
    "https://168.63.129.17/",
    "https://[2001:200::1]/",
    "https://[2003::1]/",
    f"https://{PUBLIC}/{'x' * 2000}",
]
