"""Memory of a process whose code is loaded, and of the frames of its calls."""

import json
import resource
import subprocess
import sys

import pytest
from django.conf import settings

from simservice import memory

# Leaves cycles as requests do, among many objects that stay, and counts how many wait for a collection.
PROGRAM = """
import gc, json, weakref
from simservice import memory

class Request:
    def __init__(self):
        self.itself = self

code = [[] for _ in range(100_000)]
memory.settle()
frozen, full = gc.get_freeze_count(), gc.get_stats()[2]["collections"]
waiting, most = weakref.WeakSet(), 0
for _ in range(50_000):
    waiting.add(Request())
    most = max(most, len(waiting))
print(json.dumps({"frozen": frozen, "most": most, "full": gc.get_stats()[2]["collections"] - full}))
"""


def test_little_garbage_waits_for_a_collection() -> None:
    output = subprocess.check_output([sys.executable, "-c", PROGRAM], cwd=settings.BASE_DIR, text=True)
    found: dict[str, int] = json.loads(output)
    assert found["frozen"] > 100_000
    assert found["most"] < 2_000
    assert found["full"] > 5


def deeper(levels: int) -> None:
    """Make 200 calls at each of many depths."""
    for _ in range(200):
        leaf()
    if levels:
        deeper(levels - 1)


def leaf() -> None:
    pass


def page_faults() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


def test_calls_at_any_depth_map_no_memory() -> None:
    with_room = memory.with_room_for_frames(deeper)
    with_room(500)
    before = page_faults()
    with_room(500)
    assert page_faults() - before < 100


@pytest.mark.slow
def test_the_web_application_has_room_for_frames() -> None:
    program = "from simservice.wsgi import application; print(application.__code__.co_stacksize)"
    output = subprocess.check_output([sys.executable, "-c", program], cwd=settings.BASE_DIR, text=True)
    assert int(output) == memory.FRAME_POINTERS
