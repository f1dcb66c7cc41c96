"""Lists by pages of rows with falling ids; an address names the last row seen, and cannot be forged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlencode

from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest

from simservice.api.errors import InvalidCursor
from simservice.api.pagination import make_cursor, read_cursor

Row = TypeVar("Row", bound=Model)
ROWS = 25


@dataclass(frozen=True)
class Page(Generic[Row]):
    """Some rows of a list, and the queries of the addresses that lead to the others, empty where there are none."""

    rows: Sequence[Row]
    first: str
    following: str


def page_of(request: HttpRequest, rows: QuerySet[Row], *, account_id: int, size: int = ROWS) -> Page[Row]:
    """Return the page of `rows`, newest first, that a request asks for with `after`.

    One query. Other parameters of the address are kept. Raises Http404 for a place that was not given out.
    """
    cursor = request.GET.get("after", "")
    if cursor:
        try:
            rows = rows.filter(pk__lt=read_cursor(cursor, account_id=account_id))
        except InvalidCursor:
            raise Http404 from None
    found = list(rows.order_by("-pk")[: size + 1])
    kept = {name: value for name, value in request.GET.items() if name != "after"}
    following = ""
    if len(found) > size:
        following = urlencode({**kept, "after": make_cursor(account_id=account_id, last_id=found[size - 1].pk)})
    return Page(
        rows=found[:size], first=f"?{urlencode(kept)}" if cursor else "", following=following and f"?{following}"
    )
