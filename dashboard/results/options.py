"""Which part of a result a page shows, as query parameters that can be shared."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict

MAX_SEARCH_LENGTH = 100
MAX_NUMBER = 10**6
UPGRADES, ALL = "upgrades", "all"
SORTS = ("best", "worst", "name", "-name")
ABILITY_SORTS = ("share", "name", "dps", "executes", "hits", "average", "crit")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The choices of a visitor. Invalid parameters count as missing."""

    # The parameter is `q`.
    search: str = ""
    # UPGRADES, or empty for all
    only: str = ""
    group: str = ""
    sort: str = "best"
    # The place of the entry that the others are compared with; 0 for the profile's baseline
    base: int = 0
    page: int = 1
    # ALL, or empty for the first rows of the first page
    rows: str = ""
    # The column that sorts the abilities
    by: str = "share"
    actor: int = 1

    @classmethod
    def of(cls, query: QueryDict) -> "Options":
        """Return the options in a query."""
        return cls(
            search=query.get("q", "")[:MAX_SEARCH_LENGTH].strip(),
            only=_choice(query.get("only"), ["", UPGRADES]),
            group=query.get("group", "")[:MAX_SEARCH_LENGTH],
            sort=_choice(query.get("sort"), SORTS),
            base=_number(query.get("base"), least=0),
            page=_number(query.get("page"), least=1),
            rows=_choice(query.get("rows"), ["", ALL]),
            by=_choice(query.get("by"), ABILITY_SORTS),
            actor=_number(query.get("actor"), least=1),
        )

    def link(self, **changes: Any) -> str:
        """Return the query string of a link that makes some changes. Another list starts at its first page."""
        if "page" not in changes and changes.keys() & {"search", "only", "group", "sort"}:
            changes["page"] = 1
        return f"?{urlencode(replace(self, **changes).parameters())}"

    def added_to(self, address: str) -> str:
        """Return an address that shows the same part of the result."""
        query = urlencode(self.parameters())
        return f"{address}?{query}" if query else address

    def baseline_of(self, address: str) -> str:
        """Return the address of something that has the same baseline."""
        return replace(Options(), base=self.base).added_to(address)

    def parameters(self) -> dict[str, str]:
        """Return the parameters that differ from their defaults."""
        return {
            "q" if each.name == "search" else each.name: str(value)
            for each in fields(self)
            if (value := getattr(self, each.name)) != each.default
        }

    def without(self, *left_out: str) -> list[tuple[str, str]]:
        """Return the parameters that a form keeps, without those that it changes."""
        return [item for item in self.parameters().items() if item[0] not in left_out]


def _choice(value: str | None, choices: Sequence[str]) -> str:
    return value if value is not None and value in choices else choices[0]


def _number(value: str | None, *, least: int) -> int:
    """Return a whole number of at most MAX_NUMBER, or the least one."""
    if value is None or not re.fullmatch(r"[0-9]{1,7}", value):
        return least
    return max(least, min(int(value), MAX_NUMBER))
