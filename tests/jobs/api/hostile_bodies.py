"""Request bodies that cost the web server as much as possible, each as large as allowed."""

from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import NamedTuple

from simc.profiles.analysis import MAX_OPTIONS, MAX_QUOTES, MAX_TEMPLATES
from simservice.api.parsers import MAX_WIDE_BYTES
from simservice.body_limit import MAX_JSON_BYTES

PROFILE_BYTES = 2 * 1024 * 1024
JSON_BYTES = MAX_JSON_BYTES
HEAD, TAIL = '{"build":{"channel":"latest"},"profile":{"text":"', '"}}'
ACTOR = "mage=A\n"
Make = Callable[[], str]


class Body(NamedTuple):
    """The largest body of a kind; `form` is a media type."""

    name: str
    form: str
    content: bytes


def bodies() -> Iterator[Body]:
    """Yield all bodies one at a time; together they take a gigabyte."""
    for name, make in (VALUES | STRINGS | BROKEN).items():
        yield Body(f"json: {name}", "application/json", make().encode("utf-8", "surrogateescape"))
    for name, make in PROFILES.items():
        yield Body(f"text: {name}", "text/plain", make().encode())
    for name in ("options of profilesets, in full", "templates, in full"):
        escaped = "".join(f"\\u{ord(character):04x}" for character in PROFILES[name]())
        yield Body(f"json: {name}, escaped", "application/json", f"{HEAD}{escaped}{TAIL}".encode())


def filled(unit: str, *, size: int, head: str = "", tail: str = "") -> str:
    """Return as many units as fit into `size` bytes between a head and a tail."""
    room = size - len(head.encode()) - len(tail.encode())
    return head + unit * (room // len(unit.encode("utf-8", "surrogateescape"))) + tail


def numbered(pattern: str, *, size: int, head: str = "", tail: str = "", max_parts: int | None = None) -> str:
    """Return a head and the pattern with 0, 1, 2 … for its `{}` until `size` bytes or `most` are reached."""
    parts, length = [head], len(head) + len(tail)
    for number in islice(count(), max_parts):
        part = pattern.replace("{}", str(number))
        length += len(part.encode())
        if length > size:
            break
        parts.append(part)
    return "".join([*parts, tail])


def array(unit: str) -> Make:
    """Return a function that makes a JSON array of equal members."""
    return lambda: filled(f"{unit},", size=JSON_BYTES, head="[", tail="0]")


def text_of(unit: str) -> Make:
    """Return a function that makes a submission whose profile is a JSON string of equal parts."""
    return lambda: filled(unit, size=JSON_BYTES, head=HEAD, tail=TAIL)


def member(prefix: str, unit: str, *, tail: str = '"}}', size: int = JSON_BYTES) -> Make:
    """Return a function that makes a submission with a large value in addition to its profile."""
    own = "" if '"profile"' in prefix else '"profile":{"text":"mage=A"},'
    head = '{"build":{"channel":"latest"},' + own + prefix
    return lambda: filled(unit, size=size, head=head, tail=tail)


def profile(unit: str) -> Make:
    """Return a function that makes a profile of equal parts, as many as fit."""
    return lambda: filled(unit, size=PROFILE_BYTES, head=ACTOR)


def full(pattern: str, *, max_parts: int = MAX_OPTIONS - 2) -> Make:
    """Return a function that makes a profile of numbered parts, as many as the limits allow."""
    return lambda: numbered(pattern, size=PROFILE_BYTES, head=ACTOR, max_parts=max_parts)


# Expensive for a JSON parser.
VALUES: dict[str, Make] = {
    "spaces": lambda: " " * JSON_BYTES,
    "quotes": lambda: '"' * JSON_BYTES,
    "backslashes": lambda: "\\" * JSON_BYTES,
    "lists in lists": lambda: "[" * JSON_BYTES,
    "objects in objects": lambda: filled('{"a":', size=JSON_BYTES),
    "integers": array("1"),
    "floats": array("1.5"),
    "exponents": array("1e9"),
    "nulls": array("null"),
    "NaNs": array("NaN"),
    "empty strings": array('""'),
    "escaped strings": array('"\\n"'),
    "empty lists": array("[]"),
    "empty objects": array("{}"),
    "small objects": array('{"a":1}'),
    "unknown keys": lambda: numbered('"k{}":0,', size=JSON_BYTES, head="{", tail='"z":0}'),
    "one key again and again": lambda: filled('"a":0,', size=JSON_BYTES, head="{", tail='"a":0}'),
    "long keys": lambda: numbered(f'"{{}}{"k" * 9000}":0,', size=JSON_BYTES, head="{", tail='"z":0}'),
    "entries of metadata": lambda: numbered(
        '"k{}":"",', size=JSON_BYTES, head=f'{HEAD}mage=A"}},"metadata":{{', tail='"z":""}}'
    ),
    "events": member('"webhook":{"events":["', 'job.terminal","', tail='"]}}'),
    "an integer of all digits": lambda: "9" * JSON_BYTES,
    "a float of all digits": lambda: "0." + "9" * (JSON_BYTES - 2),
    "an exponent of all digits": lambda: "1e" + "9" * (JSON_BYTES - 2),
}
CREDENTIALS = f'"credentials":{{"bnetClientId":"{"a" * 32}","bnetClientSecret":"{"b" * 32}"}}'
STRINGS: dict[str, Make] = {
    "a long profile": text_of("a"),
    "a long wide profile": lambda: filled("a", size=JSON_BYTES, head=f"{HEAD}\U0001f600", tail=TAIL),
    "a wide profile below the limit of width": lambda: filled(
        "a", size=MAX_WIDE_BYTES, head=f"{HEAD}\U0001f600", tail=TAIL
    ),
    "a long profile that a pair widens": lambda: filled(
        "a", size=JSON_BYTES, head=HEAD, tail=f"\\ud83d\\ude00{TAIL}"
    ),
    "a wide profile of escapes": lambda: filled("\\u4e00", size=JSON_BYTES, head=f"{HEAD}\U0001f600", tail=TAIL),
    "a wide profile of line feeds": lambda: filled("\\n", size=JSON_BYTES, head=f"{HEAD}\U0001f600", tail=TAIL),
    "a wide key": lambda: filled("a", size=MAX_WIDE_BYTES, head='{"build":{"\U0001f600', tail='":0}}'),
    "wide spaces": lambda: filled(" ", size=JSON_BYTES, head='{"\U0001f600":0', tail="}"),
    "a profile of escaped letters": text_of("\\u0061"),
    "a profile of escaped quotes": text_of('\\"'),
    "a profile of escaped line feeds": text_of("\\n"),
    "a profile of pairs": text_of("\\ud83d\\ude00"),
    "a profile of halves": text_of("\\ud800"),
    "a profile of emoji": text_of("\U0001f600"),
    "a profile of halves, in full": lambda: filled("\\ud800", size=PROFILE_BYTES * 2, head=HEAD, tail=TAIL),
    "a long channel": lambda: filled("a", size=JSON_BYTES, head='{"build":{"channel":"', tail=TAIL),
    "a long key": lambda: filled("\\u00e9", size=JSON_BYTES, head='{"', tail='":0}'),
    "a long key of metadata": member('"metadata":{"', "\\u00e9", tail='":0}}'),
    "a long value of metadata": member('"metadata":{"a":"', "\\ud800"),
    "a long credential": member('"credentials":{"bnetClientId":"', "a"),
    "an armory of pairs": member(
        f'{CREDENTIALS},"profile":{{"text":"armory=a,b,c',
        ",=",
        size=PROFILE_BYTES,
    ),
    "a long priority": member('"priority":{"a":"', "\\n"),
}
BROKEN: dict[str, Make] = {
    "lines before the error": lambda: "\n" * (JSON_BYTES - 1) + "x",
    "a string without an end": lambda: '"' + "\\n" * (JSON_BYTES // 2 - 1),
    "a wrong escape at the end": lambda: '"' + "\\n" * (JSON_BYTES // 2 - 4) + '\\x"',
    "an unfinished list": lambda: "[" + "1," * (JSON_BYTES // 2 - 1),
    "invalid UTF-8 at the end": lambda: "\u00e9" * (JSON_BYTES // 2 - 1) + "\udcff",
}
# Profiles that are expensive to check. Those marked "in full" are just within the limits.
PROFILES: dict[str, Make] = {
    "one-letter words": profile("a "),
    "one-letter lines": profile("a\n"),
    "one-letter options": profile("a="),
    "short options": profile("a=b "),
    "short lines": profile("a=b\n"),
    "bundled names": profile("x.simc\n"),
    "includes": profile("input=x\n"),
    "refused options": profile("html=x\n"),
    "line feeds": profile("\n"),
    "carriage returns": profile("\r"),
    "blank lines": profile(" \n"),
    "comments": profile("#\n"),
    "comments with words": profile("# a b c d\n"),
    "byte order marks": profile("\ufeff"),
    "NULs": profile("\0"),
    "emoji": profile("\U0001f600 "),
    "quotes": profile('"'),
    "quotes and spaces": profile('" '),
    "quoted letters": profile('"a" '),
    "quoted letters on lines": profile('"a"\n'),
    "letters and quotes": profile('a""'),
    "quoted words": profile('"a b"c '),
    "open quotes": profile('a="b\n'),
    "definitions": lambda: numbered("$(v{})=1\n", size=PROFILE_BYTES, head=ACTOR),
    "definitions of themselves": profile("$(a)=$(a)\n"),
    "doubling definitions": lambda: filled("$(a)=$(a)$(a)\n", size=PROFILE_BYTES, head="$(a)=1\n"),
    "100,000 templates": lambda: "$(a)=1\n" + "x=$(a)\n" * 100_000,
    "bare templates": profile("$(x)"),
    "words of templates": profile("$(x) "),
    "opened templates": profile("$("),
    "dollar signs": profile("$ "),
    "dollar signs in values": profile("a=$\n"),
    "large templates, in full": lambda: numbered(
        "x=$(b)$(b)$(e)\n",
        size=PROFILE_BYTES,
        head=f"$(b)={'b' * 999_999}\n$(e)=\n",
        max_parts=MAX_TEMPLATES // 3 - 1,
    ),
    "profilesets": lambda: numbered("profileset.{}+=a=b\n", size=PROFILE_BYTES, head=ACTOR),
    "profilesets without a name": profile("profileset.=a\n"),
    "profilesets with dots": profile("profileset.a.b=c\n"),
    "a long name": lambda: f"{ACTOR}{'n' * (PROFILE_BYTES - 20)}=1\n",
    "a long name of capitals": lambda: f"{ACTOR}{'İ' * (PROFILE_BYTES // 2 - 20)}=1\n",
    "a name of pluses": lambda: f"{ACTOR}html{'+' * (PROFILE_BYTES - 20)}=1\n",
    "a profileset's long name": lambda: f"{ACTOR}profileset.{'.' * (PROFILE_BYTES - 30)}=1\n",
    "an item of commas": lambda: f"{ACTOR}head={',' * (PROFILE_BYTES - 30)}source\n",
    "an item of spaces": lambda: f"{ACTOR}head={', ' * (PROFILE_BYTES // 2 - 30)}source\n",
    "an item of blanks": lambda: f'{ACTOR}head="{" " * (PROFILE_BYTES - 40)}source',
    "an item of sources": lambda: filled("sourcE ", size=PROFILE_BYTES, head=f'{ACTOR}head="'),
    "an item of parts": lambda: filled(",sources", size=PROFILE_BYTES, head=f"{ACTOR}head="),
    "a metric of slashes": lambda: f"{ACTOR}profileset_metric={'/' * (PROFILE_BYTES - 40)}\n",
    "a metric of letters": lambda: filled("a/", size=PROFILE_BYTES, head=f"{ACTOR}profileset_metric="),
    "an armory of commas": lambda: f"armory={',' * (PROFILE_BYTES - 10)}",
    "an armory of pairs": lambda: filled(",=", size=PROFILE_BYTES, head="armory=a,b,c"),
    "an armory of names": lambda: filled(",a", size=PROFILE_BYTES, head="armory=a,b,c"),
    "digits": lambda: f"{ACTOR}iterations={'9' * (PROFILE_BYTES - 30)}",
    "zeros": lambda: f"{ACTOR}iterations={'0' * (PROFILE_BYTES - 30)}",
    "decimals": lambda: f"{ACTOR}target_error=.{'0' * (PROFILE_BYTES - 30)}1",
    "decimals in hexadecimal": lambda: f"{ACTOR}target_error=0x.{'0' * (PROFILE_BYTES - 40)}1",
    "options, in full": full("o{}=value-{}\n"),
    "options on one line, in full": full("o{}=value-{} "),
    "one option, in full": full("strict_parsing=0\n"),
    "capitals, in full": full("HTML{}=value\n"),
    "actions, in full": full("actions+=/cast_{}\n"),
    "items, in full": full("head=,source\n"),
    "items with a source, in full": full("head=a,source=b\n"),
    "overrides, in full": full("override.item_slot.{}\n"),
    "includes, in full": full("input=file-{}\n"),
    "bare words, in full": full("profile-{}.simc\n"),
    "armories, in full": full("armory=a,b,{}\n"),
    "copies, in full": full("copy=c{}\n"),
    "actors, in full": full("warlock=w{}\n"),
    "quoted options, in full": full('"n"a"m"e=v{}\n', max_parts=MAX_QUOTES // 4),
    "numbers, in full": full("iterations=9{}99\n"),
    "profilesets, in full": full("profileset.{}=level={}\n"),
    "quoted profilesets, in full": full('profileset."{} "=a=b\n', max_parts=MAX_QUOTES // 2),
    "clamped profilesets, in full": full("profileset.{}=target_error=.001\n"),
    "refused profilesets, in full": full("profileset.{}=html=x\n"),
    "items of profilesets, in full": full("profileset.{}=head=b\n"),
    "nested profilesets, in full": full("profileset.a=profileset.{}\n"),
    "appending profilesets, in full": full("profileset.{}+=b{}+=c\n"),
    "options of profilesets, in full": full("profileset.a+=trinket1={}\n"),
    "definitions, in full": full("$(v{})=value\n", max_parts=MAX_TEMPLATES),
    "templates, in full": full("talents=$(a)\n", max_parts=MAX_TEMPLATES),
    "missing templates, in full": full("x=$(a{})\n", max_parts=MAX_TEMPLATES),
    "templates in profilesets, in full": lambda: numbered(
        "profileset.{}+=head=$(a)\n", size=PROFILE_BYTES, head=f"{ACTOR}$(a)=1\n", max_parts=MAX_TEMPLATES - 2
    ),
    "ten templates each, in full": lambda: numbered(
        f"talents={'$(a)' * 10}\n",
        size=PROFILE_BYTES,
        head=f"{ACTOR}$(a)={'x' * 100}\n",
        max_parts=MAX_TEMPLATES // 10 - 1,
    ),
}
