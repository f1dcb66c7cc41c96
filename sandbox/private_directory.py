"""The private directory of one run: its layout, its removal, and safe access to the files in it."""

import contextlib
import errno
import functools
import itertools
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from sandbox import locales

# A run's directory has three levels; the names of each level have at most 255 bytes.
LEVELS = 4


class UnsafeOutput(Exception):
    """An output file is not a plain file of an acceptable size; the message says why, with the subject "it"."""


@dataclass(frozen=True)
class PrivateDirectory:
    """A directory for one run, with the program's working directory two levels down, and logs out of its reach.

    The parent of the working directory contains nothing else, because programs can search it for files.
    """

    root: Path

    @classmethod
    def create(cls, parent: Path) -> Self:
        """Create a private directory with a random name below an existing directory."""
        return cls.create_as(parent / f"run-{secrets.token_hex(8)}")

    @classmethod
    def create_as(cls, root: Path) -> Self:
        """Create a private directory at a path that does not exist."""
        directory = cls(root)
        for level, mode in ((root, 0o711), (directory.cwd.parent, 0o711), (directory.cwd, 0o700)):
            level.mkdir(mode)
            level.chmod(mode)  # regardless of the umask
        locales.link_into(directory.cwd)
        return directory

    @functools.cached_property
    def cwd(self) -> Path:
        """Return the program's working directory, the only one that it can write to."""
        return self.root / "work" / "run"

    def log(self, stream: str) -> Path:
        """Return the path of the log of `stdout` or `stderr`."""
        return self.root / f"{stream}.log"

    def hand_over(self, uid: int) -> None:
        """Give the working directory and its files to another user."""
        for path in (self.cwd, *self.cwd.iterdir()):
            os.chown(path, uid, uid, follow_symlinks=False)

    def take_back(self) -> None:
        """Take back the working directory. Call only when none of the program's processes is alive."""
        os.chown(self.cwd, os.geteuid(), os.getegid())
        self.cwd.chmod(0o700)

    def remove(self) -> None:
        """Remove the directory. Call only when no program is alive in it."""
        with contextlib.suppress(FileNotFoundError):
            remove_tree(self.root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def remove_tree(top: Path) -> None:
    """Remove a directory that a hostile program filled. Nothing may change it meanwhile.

    Deep subdirectories are moved to the top before they are removed, so that no path is too long. Links are
    removed, never followed.
    """
    moved = (f"{top}/{secrets.token_hex(8)}-{number}" for number in itertools.count())
    while not _is_emptied(str(top), moved, levels=LEVELS):
        pass
    top.rmdir()


def _is_emptied(directory: str, moved: Iterator[str], *, levels: int) -> bool:
    """Empty a directory and its subdirectories; rename those below `levels` levels instead.

    Return whether none was renamed.
    """
    is_empty = True
    os.chmod(directory, 0o700)  # noqa: PTH101 - quicker
    for entry in list(os.scandir(directory)):
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.path)  # noqa: PTH108
        elif levels:
            is_empty &= _is_emptied(entry.path, moved, levels=levels - 1)
            os.rmdir(entry.path)  # noqa: PTH106
        else:
            # Only its owner can move a directory that is closed to everyone.
            os.chmod(entry.path, 0o700)  # noqa: PTH101
            os.rename(entry.path, next(moved))  # noqa: PTH104
            is_empty = False
    return is_empty


def open_output(directory: Path, name: str, *, max_bytes: int) -> BinaryIO | None:
    """Open a file that the program wrote; return None if it does not exist.

    Raises UnsafeOutput for anything but a regular file of at most `max_bytes` bytes with one name: a link could
    lead out of the directory, and opening a FIFO would block forever.
    """
    if name in ("", ".", "..") or "/" in name:
        raise UnsafeOutput("its name is not a plain file name")
    try:
        descriptor = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnsafeOutput("it is a symbolic link") from error
        raise UnsafeOutput(f"it cannot be opened: {error.strerror}") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        problem = "it is not a regular file"
    elif status.st_nlink != 1:
        problem = "it has more than one hard link"
    elif status.st_size > max_bytes:
        problem = f"it is {megabytes(status.st_size)} in size; the limit is {megabytes(max_bytes)}"
    else:
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise UnsafeOutput(problem)


def megabytes(count: int) -> str:
    """Return a number of bytes as a text in MB (1024² bytes), rounded up to a tenth."""
    tenths = -(-count * 10 // (1 << 20))
    return f"{tenths / 10:,.1f}".removesuffix(".0") + " MB"
