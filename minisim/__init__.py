"""A small simulator with SimulationCraft's command line, for tests, the quick start and trying things out.

It reads real profiles and writes reports of the same shape, from a combat model of its own that knows nothing of
the game. Every output says that it is minisim.
"""

import os

VERSION = "0.1.0"
GAME_VERSION = "11.2.0.63003"
"""The game version whose profiles are understood, in the form the version line and the reports carry it."""
VERSION_LINE = (
    f"minisim {VERSION} for World of Warcraft {GAME_VERSION} Live "
    "(built-in simulator with SimulationCraft's command line; this is not SimulationCraft)"
)

# Read once, when NumPy is first imported: a thread pool would only reserve address space that the sandbox counts.
for _pool in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_pool] = "1"
