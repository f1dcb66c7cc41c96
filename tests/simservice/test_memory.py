"""Memory of a process whose code is loaded."""

import json
import subprocess
import sys

from django.conf import settings

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
