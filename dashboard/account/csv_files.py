"""CSV files of an account (RFC 4180), sent while they are read."""

import csv
from collections.abc import Iterable, Iterator
from typing import Any

from django.http import StreamingHttpResponse


class _LineWriter:
    """File object for `csv.writer` that returns each line."""

    def write(self, line: str) -> str:
        return line


def csv_response(name: str, columns: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> StreamingHttpResponse:
    """Return a streamed CSV file (RFC 4180)."""
    writer = csv.writer(_LineWriter(), lineterminator="\r\n")

    def lines() -> Iterator[str]:
        yield writer.writerow(columns)
        for row in rows:
            yield writer.writerow(row)

    response = StreamingHttpResponse(lines(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
