"""Run a command as a user without rights who can still read the project and its interpreter.

`ordinary_user.py FOLDER COMMAND…`, started by root; the user owns FOLDER, which is the working directory. The
interpreter is often in a home directory that others cannot enter, so it is revealed in a mount namespace.
"""

import os
import sys
from pathlib import Path

from sandbox import confine
from sandbox.identity import closed_folders

UID = 12345
PROJECT = Path(__file__).parents[2]


def become(folder: Path) -> None:
    """Drop root's rights permanently, and change to a folder of the user."""
    needed = [PROJECT, Path(sys.prefix), Path(sys.prefix).resolve(), Path(sys.base_prefix)]
    covered = closed_folders([*needed, folder])
    os.chown(folder, UID, UID)
    if covered:
        confine.reveal(list(map(str, covered)), list(map(str, needed)), str(folder))
    confine.become_user(UID)
    os.chdir(folder)


if __name__ == "__main__":
    become(Path(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - becomes the command
