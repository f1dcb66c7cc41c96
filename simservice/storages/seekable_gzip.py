"""gzip files that can be read from the middle, and are ordinary gzip files to other readers.

At the end of each segment the compressor discards its history (a full flush), so a reader can start there.
The header's extra field lists where the segments begin (RFC 1952, section 2.3.1.1).
"""

import hashlib
import shutil
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO

SEGMENT_BYTES = 512 << 10
READ_BYTES = 64 << 10
# A larger compressed file is kept on the disk, not in memory, until it is stored.
MEMORY_BYTES = 1 << 20
# Deflate, extra field, no time, no system; then the sizes of the extra field and of its only subfield.
HEADER = struct.Struct("<10sH2sH")
MAGIC, SUBFIELD = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff", b"sg"
OFFSET, TRAILER = struct.Struct("<Q"), struct.Struct("<II")
# As many offsets as fit into the field. Later parts of the content are read from the last listed segment.
MAX_LISTED = (0xFFFF - 4) // OFFSET.size
RAW, WITH_HEADER = -zlib.MAX_WBITS, zlib.MAX_WBITS | 16


@dataclass(frozen=True, kw_only=True)
class Packed:
    """The size and hash of the content before compression."""

    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class FileRange:
    """The bytes of the file that contain a part of the content: from `start` up to `stop` (None: to the end).

    The part begins after the first `skipped` bytes of the decompressed content.
    """

    start: int
    stop: int | None
    skipped: int
    window_bits: int


def pack(content: IO[bytes], target: IO[bytes]) -> Packed:
    """Compress content; input and output are streamed. Raises OSError."""
    size, checksum, digest, offsets = 0, 0, hashlib.sha256(), []
    deflate = zlib.compressobj(6, wbits=RAW)
    with scratch() as body:
        while data := content.read(min(READ_BYTES, SEGMENT_BYTES - size % SEGMENT_BYTES)):
            if size and size % SEGMENT_BYTES == 0:
                body.write(deflate.flush(zlib.Z_FULL_FLUSH))
                offsets.append(body.tell())
            size, checksum = size + len(data), zlib.crc32(data, checksum)
            digest.update(data)
            body.write(deflate.compress(data))
        body.write(deflate.flush())
        target.write(header(offsets[:MAX_LISTED]))
        body.seek(0)
        shutil.copyfileobj(body, target, READ_BYTES)
    target.write(TRAILER.pack(checksum, size & 0xFFFFFFFF))
    return Packed(bytes=size, sha256=digest.hexdigest())


def scratch() -> IO[bytes]:
    """Return a temporary file, which is in memory while it is small."""
    return SpooledTemporaryFile(MEMORY_BYTES)


def header(offsets: list[int]) -> bytes:
    """Return a file's header. Offsets are relative to the header's end."""
    listed = b"".join(map(OFFSET.pack, offsets))
    return HEADER.pack(MAGIC, len(listed) + 4, SUBFIELD, len(listed)) + listed


def header_size(content_bytes: int) -> int:
    """Return the size of the header for a content of this size."""
    return HEADER.size + OFFSET.size * min(max(content_bytes - 1, 0) // SEGMENT_BYTES, MAX_LISTED)


def is_header(beginning: bytes, *, size: int) -> bool:
    """Return whether the beginning of a file is a header of this size."""
    return len(beginning) == size and beginning.startswith(MAGIC)


def locate(beginning: bytes, *, start: int, stop: int) -> FileRange:
    """Return where the content from byte `start` up to `stop` is, given the file's first `header_size` bytes.

    A part in the first segment needs no header.
    """
    # Of the segments after the first, relative to the header's end
    offsets = [offset for (offset,) in OFFSET.iter_unpack(beginning[HEADER.size :])]
    segment, last = min(start // SEGMENT_BYTES, len(offsets)), (stop - 1) // SEGMENT_BYTES
    if segment == 0:
        return FileRange(start=0, stop=None, skipped=start, window_bits=WITH_HEADER)
    return FileRange(
        start=len(beginning) + offsets[segment - 1],
        stop=len(beginning) + offsets[last] if last < len(offsets) else None,
        skipped=start - segment * SEGMENT_BYTES,
        window_bits=RAW,
    )


def unpack(packed: IO[bytes], *, file_range: FileRange, size: int) -> Iterator[bytes]:
    """Yield `size` bytes of the content in a range of the file. Raises EOFError if the file is truncated."""
    inflate = zlib.decompressobj(file_range.window_bits)
    skipped, left = file_range.skipped, size
    while left > 0:
        read = inflate.unconsumed_tail or packed.read(READ_BYTES)
        data = inflate.decompress(read, READ_BYTES)
        if not read and not data:
            raise EOFError("the file is truncated")
        part = data[skipped : skipped + left]
        skipped = max(0, skipped - len(data))
        left -= len(part)
        if part:
            yield part


def read_packed(packed: IO[bytes], found: "hashlib._Hash") -> Iterator[bytes]:
    """Yield a whole file as it is, and add its content to a hash. Raises EOFError if the file is truncated."""
    inflate = zlib.decompressobj(WITH_HEADER)
    while left := packed.read(READ_BYTES):
        yield left
        while left:
            found.update(inflate.decompress(left, READ_BYTES))
            left = inflate.unconsumed_tail
    found.update(inflate.flush())
    if not inflate.eof:
        raise EOFError("the file is truncated")
