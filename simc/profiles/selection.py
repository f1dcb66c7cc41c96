"""A profile without some of its tokens: the text that one stage of a job runs."""

import re
from collections.abc import Container, Iterator, Mapping

from simc.profiles.grammar import Token, profileset_name, tokens
from simc.profiles.policy import is_profileset, is_removed

_NEEDS_QUOTES = re.compile(r"[ \t\r]|^#")


def remaining_lines(
    text: str,
    *,
    without_profilesets: Container[str],
    without_options: Container[str],
    replicates: Mapping[str, str],
) -> Iterator[str]:
    """Yield a profile, one token per line, without some profilesets and some options of the base.

    Each token of a profileset in `replicates` is followed by the same token under the replicate's name.

    The simulator reads the same tokens from these lines as from the text if another line precedes them, because it
    skips a byte order mark in the first line. Call this only with profiles that the policy allows: their option
    names contain no templates, so a token need not be expanded to know what it sets.
    """
    for token in tokens(text):
        name = token.name or ""
        key = profileset_name(name) if is_profileset(name) else None
        if key is None:
            if is_profileset(name) or name not in without_options:
                yield quoted(token.text)
        elif key[0] not in without_profilesets:
            yield quoted(token.text)
            if key[0] in replicates:
                yield quoted(renamed(token, replicates[key[0]], appends=key[1]))


def kept_tokens(line: str) -> Iterator[str]:
    """Yield the tokens of a line, one per line, without those that the policy removes; their profilesets remain."""
    for token in tokens(line):
        name, value = token.name or "", token.value or ""
        if not is_profileset(name):
            if not is_removed(name):
                yield quoted(token.text)
        else:
            yield quoted(f"{name}=" if is_removed(value.partition("=")[0]) else token.text)


def renamed(token: Token, profileset: str, *, appends: bool) -> str:
    """Return the text of a profileset's token under another profileset's name."""
    return f"profileset.{profileset}{'+' if appends else ''}={token.value}"


def quoted(text: str) -> str:
    """Return a line that the simulator reads as this one token."""
    return f'"{text}"' if _NEEDS_QUOTES.search(text) else text
