"""A small simulator with SimulationCraft's command line, for tests and the quick start.

It reads real profiles and writes progress lines and reports in the real layout, but its combat model is
invented. Every output names minisim. `__main__` reads options (`configuration`, `settings`, `actor`), turns gear
into numbers (`sheet`), fights (`simulation`, `combat`) and writes reports. `boot` starts it from a checkout
inside the sandbox.

Promised: better gear means more damage, the same seed gives the same numbers, and exit statuses, messages and
option order are those of the real simulator. Not promised: any number of the game. Start with `simulation`.
"""

import os

VERSION = "0.1.0"
GAME_VERSION = "11.2.0.63003"  # The game version in the version line and in reports.
VERSION_LINE = (
    f"minisim {VERSION} for World of Warcraft {GAME_VERSION} Live "
    "(built-in simulator with SimulationCraft's command line; this is not SimulationCraft)"
)

# NumPy reads these when it is first imported. A thread pool would only use address space, which the sandbox limits.
for _pool in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_pool] = "1"
