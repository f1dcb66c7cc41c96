"""Gzip files that can be read from any position."""

import gzip
import io
import random
import zlib

import pytest

from simservice.storages import seekable_gzip
from simservice.storages.seekable_gzip import (
    MAX_LISTED,
    READ_BYTES,
    SEGMENT_BYTES,
    header_size,
    locate,
    pack,
    unpack,
)

SIZES = [0, 1, SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 3 * SEGMENT_BYTES, 3 * SEGMENT_BYTES + 77]


def random_text(size: int) -> bytes:
    """Return a long text without repetitions."""
    return random.Random(size).randbytes(size // 2 + 1).hex().encode()[:size]  # noqa: S311 - no secret


def packed(content: bytes) -> bytes:
    target = io.BytesIO()
    assert pack(io.BytesIO(content), target).bytes == len(content)
    return target.getvalue()


def part(file: bytes, content_bytes: int, start: int, stop: int) -> bytes:
    """Read a range from a storage that sends exactly the requested bytes."""
    file_range = locate(file[: header_size(content_bytes)], start=start, stop=stop)
    return b"".join(
        unpack(io.BytesIO(file[file_range.start : file_range.stop]), file_range=file_range, size=stop - start)
    )


@pytest.mark.parametrize("size", SIZES)
def test_every_gzip_reader_can_read_the_file(size: int) -> None:
    content = random_text(size)
    file, reader = packed(content), zlib.decompressobj(zlib.MAX_WBITS | 16)
    assert gzip.decompress(file) == content
    # One member only, because browsers stop after the first.
    assert (reader.decompress(file), reader.eof, reader.unused_data) == (content, True, b"")


@pytest.mark.parametrize("size", SIZES)
def test_any_range_matches_the_content(size: int) -> None:
    content, file = random_text(size), packed(random_text(size))
    edges = [edge for n in range(4) for edge in (n * SEGMENT_BYTES - 1, n * SEGMENT_BYTES, n * SEGMENT_BYTES + 1)]
    positions = sorted({min(max(edge, 0), size) for edge in [*edges, size]})
    for start in positions:
        for stop in positions[positions.index(start) :]:
            assert part(file, size, start, stop) == content[start:stop]


def test_a_position_beyond_the_index_is_read_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seekable_gzip, "MAX_LISTED", 1)
    content = random_text(4 * SEGMENT_BYTES)
    file = packed(content)
    assert part(file, len(content), len(content) - 9, len(content)) == content[-9:]
    assert gzip.decompress(file) == content


def test_the_largest_index_fits_into_the_header() -> None:
    assert len(seekable_gzip.header([1] * MAX_LISTED)) == header_size(MAX_LISTED * SEGMENT_BYTES + 1)


def test_a_truncated_file_is_detected() -> None:
    content = random_text(1000)
    with pytest.raises(EOFError):
        part(packed(content)[:200], len(content), 0, len(content))


def test_well_compressed_content_is_read_in_small_parts() -> None:
    content = bytes(4 * SEGMENT_BYTES)
    parts = unpack(io.BytesIO(packed(content)), file_range=locate(b"", start=0, stop=1), size=len(content))
    assert max(map(len, parts)) <= READ_BYTES
