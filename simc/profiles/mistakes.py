"""The mistakes that make a line of a profile unreadable for the simulator, and how to correct them.

The simulator treats every word without `=` as a file name, and every text before `=` as an option name, so its own
messages would not say what to change.
"""

import re

from simc.characters import code_of, first_invisible, visible
from simc.profiles.grammar import BOM

SHOWN_CHARACTERS = 40
# Longer lines are read only in part, to limit the work.
READ_CHARACTERS = 1_000
# Real profiles use only such option names. Action lists can have any name.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\+*", re.ASCII)
_ACTION_LIST = re.compile(r"actions\.[^\s=]+")
# An option after a character that looks like a space but does not separate options, such as a no-break space
_FALSE_BLANKS = r"[\x85\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff]"
_FALSE_BLANK = re.compile(_FALSE_BLANKS)
_AFTER_FALSE_BLANK = re.compile(f"({_FALSE_BLANKS})[a-z_0-9.]+\\+?=")

NOT_A_NAME = "the text before = is not an option name; write each option as name=value on its own line"
LOST_LINE_BREAKS = (
    "a name or value cannot contain another option. The text seems to have lost its line breaks: put each option "
    "on its own line. With curl, use --data-binary instead of -d"
)
ESCAPED_LINE_BREAKS = r"the text contains \n instead of line breaks; send real line breaks"
BLANKS = "remove the spaces around ="
NO_CHARACTER_NAME = "the character has no name; write it after =, as in mage=Name"
COMMENT = "comments must begin with # at the start of a line"
TRAILING_COMMENT = f"{COMMENT}; delete the text before #, or move the comment to its own line"
LINK = "this is a link; paste the text of the linked profile instead"
PATH = "this is a path on your computer; paste the contents of the file instead"
HTML = "this is HTML; paste the profile as plain text"
JSON = "this is JSON; paste the profile as plain text, with options written as name=value"
MARKDOWN = "this is Markdown; paste only the text of the profile"
ENCODED = "the text is URL-encoded; send it without encoding"
DASHES = "remove the dashes before the option; write options as name=value"
CURLY_QUOTES = 'replace the curly quotes with straight ones (")'
COLON = "write = instead of : between an option and its value, as in name=value"
DOWNLOAD = "write armory=region,server,name or guild=name,region=…,server=…"
# Checked in this order with the whole line.
_LINES = (
    (re.compile(r'\s*["\'<(]*(?:https?|ftp|file)://|\s*["\'<(]*www\.', re.IGNORECASE), LINK),
    (re.compile(r"\s*(?:</?[A-Za-z!][^<]*>?|&[a-z]+;|&#)"), HTML),
    (re.compile(r'\s*(?:[{}\[\]],?\s*$|[{\[]\s*["{\[]|"[^"]*"\s*:)'), JSON),
    (re.compile(r"\s*`"), MARKDOWN),
    (re.compile(r'\s*"?(?:[A-Za-z]:[\\/]|\\\\)'), PATH),
    (re.compile(r".*%(?:3D|22|0A|2C)", re.IGNORECASE), ENCODED),
    (re.compile(r"\s*--?[A-Za-z_][\w.]*="), DASHES),
    (re.compile(r"\s*(?://|;|--|/\*|REM\s|%)"), COMMENT),
    (re.compile(r".*#"), TRAILING_COMMENT),
    (re.compile(r".*(?:[a-z]+://|\b[a-z0-9-]+\.(?:com|net|org|io|gg|tv|eu|de)/)", re.IGNORECASE), LINK),
    (re.compile(r".*[“”„‟«»]"), CURLY_QUOTES),
    (re.compile(r".*(?:\s\+?=|=\s)"), BLANKS),
    (re.compile(r"\s*(?:armory|guild)\b", re.IGNORECASE), DOWNLOAD),
    (re.compile(r"\s*[A-Za-z_][\w.]*\s*:"), COLON),
)
_LIKE_A_FILE = re.compile(r".*[/\\]|.*\.\w{1,5}$|-$|\.+$|input\b", re.IGNORECASE)


def is_option_name(name: str) -> bool:
    """Return whether a text before `=` can be the name of an option."""
    return bool(_NAME.fullmatch(name) or (_ACTION_LIST.fullmatch(name) and not first_invisible(name)))


def problem_of_name(name: str) -> str:
    """Return why a text is not an option name."""
    strange = first_invisible(name)
    if strange:
        return f"the option name contains the invisible character {code_of(strange)}; delete it"
    foreign = next((character for character in name if character.isalpha() and not character.isascii()), None)
    if foreign:
        return f"the option name contains {foreign} ({code_of(foreign)}), which is not an ASCII letter; retype it"
    return NOT_A_NAME


def needs_reading(value: str) -> bool:
    """Return whether a value may contain another option: a quick check, because most values do not."""
    return "profileset." in value or not value.isascii()


def problem_of_value(value: str) -> str | None:
    """Return why a value contains an option that the simulator would not find, or None."""
    other = value.find("profileset.", 1)
    if other > 0 and "=" in value[other:]:
        return LOST_LINE_BREAKS
    if value.isascii() or not _FALSE_BLANK.search(value):
        return None
    false_blank = _AFTER_FALSE_BLANK.search(value)
    if not false_blank:
        return None
    shown = code_of(false_blank[1])
    return f"the invisible character {shown} does not separate options; replace it with a space or a line break"


def problem_of_character(value: str) -> str | None:
    """Return why a value is not the name of a character, or None."""
    if "=" not in value:
        return None
    return ESCAPED_LINE_BREAKS if "\\n" in value else LOST_LINE_BREAKS


def reason_of_line(line: str, word: str) -> str | None:
    """Return the mistake in a line whose `word` is not an option; None if it seems to be the name of a file."""
    line = line[:READ_CHARACTERS]
    strange = first_invisible(word.partition("=")[0])
    if strange:
        return f"the line contains the invisible character {code_of(strange)}; delete it"
    found = next((reason for pattern, reason in _LINES if pattern.match(line)), None)
    if found:
        return found
    if "=" in word:
        return NOT_A_NAME
    if _LIKE_A_FILE.match(word):
        return None
    shown = visible(word[:SHOWN_CHARACTERS])
    return f"“{shown}” is not an option; write each option as name=value on its own line"


def seems_without_line_breaks(text: str) -> bool:
    """Return whether a text without a character is one long line, which may be read as a single comment."""
    whole = text.removeprefix(BOM).strip()
    if "\n" in whole:
        return False
    # Several lines that were joined have words with several equals signs.
    is_joined = any(word.count("=") > 1 for word in whole.split())
    return "\r" in whole or "\\n" in whole or (whole[:1] == "#" and "=" in whole) or is_joined
