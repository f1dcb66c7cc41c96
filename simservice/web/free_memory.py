"""Return of freed memory to the system."""

import ctypes

_libc = ctypes.CDLL(None)


def release() -> None:
    """Return freed memory to the system, if the C library is glibc, which otherwise keeps it for later.

    After the code is loaded, this returns about 1 MB.
    """
    if (trim := getattr(_libc, "malloc_trim", None)) is not None:
        trim(0)
