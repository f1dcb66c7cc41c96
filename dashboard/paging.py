"""Pages of lists, newest first. Links contain a signed cursor that names the last row of the previous page."""

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
    """Rows of a page, and the query strings of links to the first and the next page; empty if there is none."""

    rows: Sequence[Row]
    first: str
    following: str


def page_of(request: HttpRequest, rows: QuerySet[Row], *, account_id: int) -> Page[Row]:
    """Return the requested page of `rows`, newest first. One query.

    The links keep the other query parameters. Raises Http404 if the cursor in `after` is invalid.
    """
    cursor = request.GET.get("after", "")
    if cursor:
        try:
            rows = rows.filter(pk__lt=read_cursor(cursor, account_id=account_id))
        except InvalidCursor:
            raise Http404 from None
    fetched = list(rows.order_by("-pk")[: ROWS + 1])
    kept = {name: value for name, value in request.GET.items() if name != "after"}
    following = ""
    if len(fetched) > ROWS:
        following = urlencode({**kept, "after": make_cursor(account_id=account_id, last_id=fetched[ROWS - 1].pk)})
    return Page(
        rows=fetched[:ROWS], first=f"?{urlencode(kept)}" if cursor else "", following=following and f"?{following}"
    )
