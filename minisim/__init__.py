"""A small simulator with SimulationCraft's command line, for tests and the quick start.

It reads real profiles and writes reports with the same layout, but its combat model is invented. Every output names
minisim.
"""

import os

VERSION = "0.1.0"
GAME_VERSION = "11.2.0.63003"
"""The game version in the version line and in reports."""
VERSION_LINE = (
    f"minisim {VERSION} for World of Warcraft {GAME_VERSION} Live "
    "(built-in simulator with SimulationCraft's command line; this is not SimulationCraft)"
)

# NumPy reads these when it is first imported. A thread pool would only use address space, which the sandbox limits.
for _pool in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_pool] = "1"
