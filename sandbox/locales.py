"""The locale `en_US.UTF-8`, which some programs need, on machines that lack it.

glibc finds a locale by its name below `LOCPATH`, so a link to `C.UTF-8`, which glibc installs, is enough. Other
systems have no such folder, and nothing is linked.
"""

import functools
from pathlib import Path

NAME = "en_US.UTF-8"
SYSTEM = Path("/usr/lib/locale")
FOLDER = ".locale"
# glibc also tries this spelling for `en_US.UTF-8` and `en_US.UTF8`.
LINK = "en_US.utf8"


@functools.cache
def source() -> Path | None:
    """Return the system's folder of `C.UTF-8`, or None."""
    return next((path for name in ("C.utf8", "C.UTF-8") if (path := SYSTEM / name).is_dir()), None)


def link_into(cwd: Path) -> None:
    """Link the locale into a run's working directory, which the program can read."""
    if (path := source()) is not None:
        (cwd / FOLDER).mkdir()
        (cwd / FOLDER / LINK).symlink_to(path)


def environment(cwd: Path) -> dict[str, str]:
    """Return the variable with which the program finds the linked locale.

    Without a link, the variable would only hide the machine's own locales.
    """
    return {"LOCPATH": str(cwd / FOLDER)} if source() is not None else {}
