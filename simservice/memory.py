"""Memory of a process whose code is loaded."""

import ctypes
import gc

_libc = ctypes.CDLL(None)


def settle() -> None:
    """Return freed memory to the system, and leave all present objects out of later garbage collections.

    Python collects old objects when a quarter has been added. Without the code's own objects, it collects earlier,
    so less garbage is waiting. Only glibc keeps freed memory for later.
    """
    gc.collect()
    gc.freeze()
    if (trim := getattr(_libc, "malloc_trim", None)) is not None:
        trim(0)
