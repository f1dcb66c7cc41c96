"""Run a command as a user without any rights, who can nevertheless reach the project and its interpreter.

`ordinary_user.py FOLDER COMMAND…`, started by root; FOLDER becomes the user's own and the working directory. The
interpreter often lies in a home directory that is closed to others, so it is shown in a mount namespace.
"""

import os
import sys
from pathlib import Path

from jobs.simulator import enter
from jobs.simulator.identity import closed_folders

UID = 12345
PROJECT = Path(__file__).parents[3]


def become(folder: Path) -> None:
    """Give up root's rights for good, and go to a folder of one's own."""
    shown = [PROJECT, Path(sys.prefix), Path(sys.prefix).resolve(), Path(sys.base_prefix)]
    covered = closed_folders([*shown, folder])
    os.chown(folder, UID, UID)
    if covered:
        enter.reveal(list(map(str, covered)), list(map(str, shown)), str(folder))
    enter.become_user(UID)
    os.chdir(folder)


if __name__ == "__main__":
    become(Path(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - becomes the command
