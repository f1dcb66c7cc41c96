"""Rules for host names: only full names of the public internet."""

import re
import unicodedata

MAX_NAME = 253
LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)\Z")
# What a resolver may read as a part of an IPv4 address.
NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)\Z")
INTERNATIONAL = "xn--"
# Letters of other alphabets that look like Latin letters.
LOOKALIKES = frozenset("асԁеһіјӏорԛѕԝхуѵαινορυ")  # noqa: RUF001

# Top-level domains that are not public, each with its source.
INTERNAL_SUFFIXES = {
    "alt": "RFC 9476",
    "arpa": "RFC 3172, home.arpa RFC 8375",
    "corp": "ICANN's list of name collisions",
    "domain": "common in internal networks",
    "example": "RFC 6761",
    "home": "ICANN's list of name collisions",
    "internal": "ICANN's reservation of 2024",
    "intra": "common in internal networks",
    "intranet": "RFC 6762, appendix G",
    "invalid": "RFC 6761",
    "lan": "RFC 6762, appendix G",
    "local": "RFC 6762",
    "localdomain": "common for the local machine",
    "localhost": "RFC 6761",
    "mail": "ICANN's list of name collisions",
    "onion": "RFC 7686",
    "private": "RFC 6762, appendix G",
    "svc": "common for services of a cluster",
    "test": "RFC 6761",
    "workgroup": "common in internal networks",
}


class NameRefused(ValueError):
    """The name is not public; the message is a sentence for the person who configured it."""


def is_public(host: str) -> bool:
    """Return whether this is a full domain name of the public internet, in any case, and not an address."""
    host = host.lower()
    try:
        require(host)
    except NameRefused:
        return False
    return not looks_like_address(host)


def looks_like_address(host: str) -> bool:
    """Return whether a resolver may read a host as an IPv4 address."""
    return bool(NUMBER.match(host.rstrip(".").rpartition(".")[2]))


def require(host: str) -> None:
    """Raise NameRefused unless this is a full domain name of the public internet, in lower case."""
    labels = host.split(".")
    if host.endswith("."):
        raise NameRefused("The host name must not end with a dot.")
    if len(host) > MAX_NAME or not all(LABEL.match(label) for label in labels):
        raise NameRefused(
            "The host name is invalid. A name has parts of letters, digits and hyphens, separated by dots."
        )
    if labels[-1] in INTERNAL_SUFFIXES:
        raise NameRefused(f"Names that end in .{labels[-1]} are not public ({INTERNAL_SUFFIXES[labels[-1]]}).")
    if len(labels) < 2:
        raise NameRefused(f"“{host}” is not a public name, because it contains no dot.")
    for label in labels:
        if label.startswith(INTERNATIONAL):
            _require_honest(label)


def _require_honest(label: str) -> None:
    """Refuse a part of an international name that imitates another name."""
    try:
        text = label.removeprefix(INTERNATIONAL).encode().decode("punycode")
    except UnicodeError:
        text = ""
    is_text = all(character == "-" or unicodedata.category(character)[0] in "LMN" for character in text)
    if text.isascii() or not is_text or unicodedata.normalize("NFKC", text).casefold() != text:
        raise NameRefused(f"{label} is not a valid part of an international name.")
    alphabets = {_alphabet_of(character) for character in text if character.isalpha()}
    if len(alphabets) > 1:
        raise NameRefused(f"{label} mixes letters of different alphabets, so it can look like another name.")
    if all(character in LOOKALIKES or character in "-0123456789" for character in text):
        raise NameRefused(
            f"{label} contains only letters that look like Latin ones, so it can look like another name."
        )


def _alphabet_of(character: str) -> str:
    """Return the alphabet of a letter; those of East Asian languages count as one."""
    first = unicodedata.name(character, "UNKNOWN").partition(" ")[0].partition("-")[0]
    return "CJK" if first in {"HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"} else first
