"""gzip files that can be read from the middle, and are ordinary gzip files to other readers.

At the end of each segment the compressor discards its history (a full flush), so a reader can start there.
The header's extra field lists where the segments begin (RFC 1952, section 2.3.1.1).
"""

import hashlib
import shutil
import struct
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

SEGMENT_BYTES = 512 << 10
READ_BYTES = 64 << 10
# Deflate, an extra field, no time, no system; then the sizes of the field and of its only subfield.
HEADER = struct.Struct("<10sH2sH")
MAGIC, SUBFIELD = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff", b"sg"
OFFSET, TRAILER = struct.Struct("<Q"), struct.Struct("<II")
# As many as fit into the field. A part after the last listed segment is read from that segment.
MOST_LISTED = (0xFFFF - 4) // OFFSET.size
RAW, WITH_HEADER = -zlib.MAX_WBITS, zlib.MAX_WBITS | 16


@dataclass(frozen=True, kw_only=True)
class Packed:
    """The size and hash of the content before compression."""

    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where to read a part of the content: in the file from `start` up to `stop` (None: its end).

    Skip the first `skipped` bytes of the content there.
    """

    start: int
    stop: int | None
    skipped: int
    window_bits: int


def pack(content: IO[bytes], target: IO[bytes]) -> Packed:
    """Compress content; input and output are streamed. Raises OSError."""
    size, checksum, digest, offsets = 0, 0, hashlib.sha256(), []
    deflate = zlib.compressobj(6, wbits=RAW)
    with tempfile.TemporaryFile() as body:
        while data := content.read(min(READ_BYTES, SEGMENT_BYTES - size % SEGMENT_BYTES)):
            if size and size % SEGMENT_BYTES == 0:
                body.write(deflate.flush(zlib.Z_FULL_FLUSH))
                offsets.append(body.tell())
            size, checksum = size + len(data), zlib.crc32(data, checksum)
            digest.update(data)
            body.write(deflate.compress(data))
        body.write(deflate.flush())
        target.write(header(offsets[:MOST_LISTED]))
        body.seek(0)
        shutil.copyfileobj(body, target, READ_BYTES)
    target.write(TRAILER.pack(checksum, size & 0xFFFFFFFF))
    return Packed(bytes=size, sha256=digest.hexdigest())


def header(offsets: list[int]) -> bytes:
    """Return a file's header; the offsets count from its end."""
    listed = b"".join(map(OFFSET.pack, offsets))
    return HEADER.pack(MAGIC, len(listed) + 4, SUBFIELD, len(listed)) + listed


def header_size(content_bytes: int) -> int:
    """Return how long the header of a content's file is."""
    return HEADER.size + OFFSET.size * min(max(content_bytes - 1, 0) // SEGMENT_BYTES, MOST_LISTED)


def place_of(found: bytes, *, start: int, stop: int) -> Place:
    """Return where to read the content from byte `start` up to `stop`, given the file's first `header_size` bytes.

    A file without this list is read from its beginning.
    """
    offsets = listed_offsets(found)
    segment, last = min(start // SEGMENT_BYTES, len(offsets)), (stop - 1) // SEGMENT_BYTES
    if segment == 0:
        return Place(start=0, stop=None, skipped=start, window_bits=WITH_HEADER)
    return Place(
        start=len(found) + offsets[segment - 1],
        stop=len(found) + offsets[last] if last < len(offsets) else None,
        skipped=start - segment * SEGMENT_BYTES,
        window_bits=RAW,
    )


def listed_offsets(found: bytes) -> list[int]:
    """Return the offsets of the segments after the first, from the header's end; none for other files."""
    size = len(found) - HEADER.size
    if size < 0 or HEADER.unpack_from(found) != (MAGIC, size + 4, SUBFIELD, size):
        return []
    return [offset for (offset,) in OFFSET.iter_unpack(found[HEADER.size :])]


def unpack(packed: IO[bytes], *, place: Place, size: int) -> Iterator[bytes]:
    """Yield `size` bytes of the content at a place. Raises EOFError if the file is truncated."""
    inflate = zlib.decompressobj(place.window_bits)
    skipped, left = place.skipped, size
    while left > 0:
        read = inflate.unconsumed_tail or packed.read(READ_BYTES)
        data = inflate.decompress(read, READ_BYTES)
        if not read and not data:
            raise EOFError("the file is cut off")
        part = data[skipped : skipped + left]
        skipped = max(0, skipped - len(data))
        left -= len(part)
        if part:
            yield part
