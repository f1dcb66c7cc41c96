"""Memory of a process whose code is loaded."""

import ctypes
import gc

# After 700 new objects, Python collects these; every fourth time also older objects, every thirteenth time all.
THRESHOLDS = (700, 2, 2)
_libc = ctypes.CDLL(None)


def settle() -> None:
    """Return freed memory to the system, and limit the garbage that waits for a collection to about 1 MB.

    Each request leaves about 200 objects in reference cycles, and each job 80. All present objects are left out of
    later collections, so these take at most a few milliseconds and can be frequent. Only glibc keeps freed memory.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    # Python postpones a full collection until new objects exceed a quarter of those that survived the previous one.
    gc.collect()
    if (trim := getattr(_libc, "malloc_trim", None)) is not None:
        trim(0)
