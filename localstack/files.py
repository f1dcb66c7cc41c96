"""Replacement of files."""

import os
import shutil
import tempfile
from pathlib import Path


def replace_file(path: Path, text: str, *, owner: str | None = None) -> None:
    """Replace a file atomically. Only its owner (None: the user of this process) can read it.

    A link at `path` is replaced, not followed.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(handle)
        if owner is not None:
            shutil.chown(handle, owner, owner)
    Path(temporary).replace(path)
