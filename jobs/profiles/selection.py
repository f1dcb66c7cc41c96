"""A profile with some of its tokens left out: what a stage of multistage execution runs."""

import re
from collections.abc import Container, Iterator

from jobs.profiles.grammar import Token, profileset_name, tokens
from jobs.profiles.policy import is_profileset

_NEEDS_QUOTES = re.compile(r"[ \t\r]|^#")


def without(text: str, *, profilesets: Container[str], options: Container[str]) -> Iterator[str]:
    """Yield a profile token by token, one to a line, without some profilesets and some of the base's options.

    The simulator reads the same tokens from these lines as from the text, as long as another line comes
    first: there a byte order mark is skipped. For profiles that the policy lets pass: in those no template stands
    in a name, so what a token sets can be told without expanding it.
    """
    for token in tokens(text):
        name = token.name or ""
        if is_profileset(name):
            found = profileset_name(name)
            left_out = found is not None and found[0] in profilesets
        else:
            left_out = name in options
        if not left_out:
            yield written(token)


def written(token: Token) -> str:
    """Return a line that is read as this one token; quotes are deleted wherever they stand (simulator-cli, 1.2)."""
    return f'"{token.text}"' if _NEEDS_QUOTES.search(token.text) else token.text
