"""A profile with some of its tokens left out: what a stage of multistage execution runs."""

import re
from collections.abc import Container, Iterator, Mapping

from jobs.profiles.grammar import Token, profileset_name, tokens
from jobs.profiles.policy import is_profileset

_NEEDS_QUOTES = re.compile(r"[ \t\r]|^#")


def without(
    text: str, *, profilesets: Container[str], options: Container[str], replicates: Mapping[str, str]
) -> Iterator[str]:
    """Yield a profile token by token, one to a line, without some profilesets and some of the base's options.

    Each token of a profileset in `replicates` is followed by the same token for the replicate's name.

    The simulator reads the same tokens from these lines as from the text, if another line comes first (the
    simulator skips a byte order mark there). Only for profiles that the policy allows: their option names contain
    no templates, so a token need not be expanded to see what it sets.
    """
    for token in tokens(text):
        name = token.name or ""
        found = profileset_name(name) if is_profileset(name) else None
        if found is None:
            if is_profileset(name) or name not in options:
                yield written(token.text)
        elif found[0] not in profilesets:
            yield written(token.text)
            if found[0] in replicates:
                yield written(_renamed(token, replicates[found[0]], appends=found[1]))


def _renamed(token: Token, profileset: str, *, appends: bool) -> str:
    return f"profileset.{profileset}{'+' if appends else ''}={token.value}"


def written(text: str) -> str:
    """Return a line that is read as this one token; quotes are deleted wherever they stand (simulator-cli, 1.2)."""
    return f'"{text}"' if _NEEDS_QUOTES.search(text) else text
