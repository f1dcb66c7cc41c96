"""Memory of a process whose code is loaded, and of the frames of its calls."""

import ctypes
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
# After 700 new objects, Python collects these; every fourth time also older objects, every thirteenth time all.
THRESHOLDS = (700, 2, 2)
# Python puts a frame of this many pointers at the beginning of a chunk of 256 KB, and half of the chunk stays free.
FRAME_POINTERS = 16_000
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


def with_room_for_frames(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Return a function that calls another one with room for 128 KB of Python frames.

    Otherwise, frames are in chunks of 16 KB. Python 3.11 unmaps a chunk when its first frame returns, so each call
    at the end of a chunk maps memory. A template's loop that happens to be there can double the time of a page.
    """

    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return function(*args, **kwargs)

    call.__code__ = call.__code__.replace(co_stacksize=FRAME_POINTERS)
    return call
