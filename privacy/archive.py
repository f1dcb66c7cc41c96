"""ZIP files of JSON Lines, written row by row."""

import json
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, TypeVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import F, Model, QuerySet

# Rows of a query
PAGE = 1_000

M = TypeVar("M", bound=Model)
Row = dict[str, Any]
Section = tuple[str, Iterable[Row]]


def write(target: IO[bytes], sections: Iterable[Section], *, keep_alive: Callable[[], None]) -> None:
    """Write each section as a file of JSON Lines. `keep_alive` is called after every row, and may raise."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, rows in sections:
            with archive.open(f"{name}.jsonl", "w", force_zip64=True) as file:
                for row in rows:
                    file.write(json.dumps(row, cls=DjangoJSONEncoder, ensure_ascii=False).encode() + b"\n")
                    keep_alive()


def rows_of(found: QuerySet[Any], *fields: str) -> Iterator[Row]:
    """Yield fields of all rows, in the order of their keys."""
    ordered = found.order_by("pk").values(*fields, key=F("pk"))
    page = list(ordered[:PAGE])
    while page:
        last = page[-1]["key"]
        yield from page
        page = list(ordered.filter(pk__gt=last)[:PAGE])


def pages(found: QuerySet[M], *, size: int) -> Iterator[list[M]]:
    """Yield pages of objects in the order of their keys, each with a query that starts after the last key."""
    page = list(found.order_by("pk")[:size])
    while page:
        yield page
        page = list(found.filter(pk__gt=page[-1].pk).order_by("pk")[:size])
