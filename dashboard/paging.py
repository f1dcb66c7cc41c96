"""Pages of lists, newest first. Links contain a signed cursor that names the last row of the previous page."""

from collections.abc import Mapping, Sequence
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
    """Return the requested page of `rows`, newest first. Raises Http404 for an invalid cursor."""
    after = id_in_cursor(request, account_id=account_id)
    if after is not None:
        rows = rows.filter(pk__lt=after)
    fetched = list(rows.order_by("-pk")[: ROWS + 1])
    last_id = fetched[ROWS - 1].pk if len(fetched) > ROWS else None
    return make_page(request, fetched[:ROWS], account_id=account_id, last_id=last_id)


def id_in_cursor(request: HttpRequest, *, account_id: int) -> int | None:
    """Return the id after which the requested page starts, None for the first page. Raises Http404."""
    cursor = request.GET.get("after", "")
    try:
        return read_cursor(cursor, account_id=account_id) if cursor else None
    except InvalidCursor:
        raise Http404 from None


def make_page(
    request: HttpRequest,
    rows: Sequence[Row],
    *,
    account_id: int,
    last_id: int | None,
    carried: Mapping[str, str] | None = None,
) -> Page[Row]:
    """Return a page whose links keep the other query parameters; the next page starts after `last_id`.

    Only the link to the next page has the parameters `carried`.
    """
    carried = carried or {}
    kept = {name: value for name, value in request.GET.items() if value and name not in ("after", *carried)}
    following = ""
    if last_id is not None:
        cursor = make_cursor(account_id=account_id, last_id=last_id)
        following = "?" + urlencode({**kept, **carried, "after": cursor})
    first = f"?{urlencode(kept)}" if request.GET.get("after") else ""
    return Page(rows=rows, first=first, following=following)
