"""Memory of a run: the kernel's limit with a delegated control group, and the sum over processes without one.

The kernel's part needs a machine that delegates control groups; here plain folders replace them.
"""

import contextlib
import mmap
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from unittest.mock import Mock

import pytest

from sandbox import confine, usage
from sandbox import supervisor as supervising
from sandbox.supervisor import RunSupervisor
from sandbox.usage import (
    PAGE_BYTES,
    MemoryCgroup,
    memory_use,
    proportional_bytes,
    remove_abandoned_groups,
    resident_bytes,
)

MIB = 1 << 20
LIMIT = 256 * MIB
# Above the highest process id of Linux.
NO_PROCESS = 1 << 22
PR_SET_DUMPABLE = 4
T = TypeVar("T")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return the group of a worker, in a delegated group."""
    home = tmp_path / "service" / "worker"
    home.mkdir(parents=True)
    os.setxattr(home.parent, "user.delegate", b"1")
    (home.parent / "cgroup.subtree_control").write_text("")
    (home / "memory.swap.max").write_text("max")
    return home


def created(home: Path | None) -> MemoryCgroup:
    group = MemoryCgroup.create(LIMIT, home=home)
    assert group is not None
    return group


def without_capabilities(action: Callable[[], T]) -> T:
    """Return the result of an action in a thread of root without capabilities."""
    with ThreadPoolExecutor(1, initializer=confine.drop_capabilities) as pool:
        return pool.submit(action).result()


def test_a_control_group_limits_memory_and_swap(home: Path) -> None:
    group = created(home)
    assert group.folder.parent == home.parent
    assert (home.parent / "cgroup.subtree_control").read_text() == "+memory"
    assert (group.folder / "memory.max").read_text() == str(LIMIT)
    assert (group.folder / "memory.swap.max").read_text() == "0"


def test_swap_is_not_limited_if_the_kernel_does_not_count_it(home: Path) -> None:
    (home / "memory.swap.max").unlink()
    assert not (created(home).folder / "memory.swap.max").exists()


def test_the_supervisor_enters_the_group_and_leaves_it(home: Path) -> None:
    group = created(home)
    assert (group.folder / "cgroup.procs").read_text() == str(os.getpid())
    assert not (home / "cgroup.procs").exists()
    group.leave()
    assert (home / "cgroup.procs").read_text() == str(os.getpid())


def test_no_group_is_created_outside_control_groups() -> None:
    assert MemoryCgroup.create(LIMIT, home=None) is None


def test_no_group_is_created_without_delegation(home: Path) -> None:
    os.removexattr(home.parent, "user.delegate")
    assert MemoryCgroup.create(LIMIT, home=home) is None
    assert list(home.parent.glob("sandbox-run-*")) == []


@pytest.mark.parametrize("closed", [".", "cgroup.subtree_control"])
def test_a_read_only_tree_stays_unchanged(home: Path, closed: str) -> None:
    before = sorted(home.parent.iterdir())
    (home.parent / closed).chmod(0o555)
    assert without_capabilities(lambda: MemoryCgroup.create(LIMIT, home=home)) is None
    assert sorted(home.parent.iterdir()) == before


def test_a_run_continues_if_the_supervisor_stays_in_its_group(home: Path) -> None:
    group = created(home)
    (home / "cgroup.procs").mkdir()
    group.leave()


def test_groups_of_killed_supervisors_are_removed(home: Path) -> None:
    leftover = home.parent / f"sandbox-run-{NO_PROCESS}"
    leftover.mkdir()
    created(home)
    assert not leftover.exists()


def test_an_old_group_with_our_process_id_is_replaced(home: Path) -> None:
    (home.parent / f"sandbox-run-{os.getpid()}").mkdir()
    created(home)


def test_the_empty_group_of_a_live_supervisor_stays(home: Path) -> None:
    others = home.parent / f"sandbox-run-{os.getppid()}"
    others.mkdir()
    remove_abandoned_groups(home.parent)
    assert others.exists()


def test_an_abandoned_group_in_use_stays(home: Path) -> None:
    busy = home.parent / f"sandbox-run-{NO_PROCESS}"
    (busy / "process").mkdir(parents=True)
    assert created(home)
    assert busy.exists()


@pytest.mark.parametrize(
    ("events", "is_exceeded"),
    [
        ("low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n", False),
        ("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n", True),
        # Killed for the limit of a parent group or of the machine; then a shortage without a kill.
        ("low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\noom_group_kill 0\n", False),
        ("low 0\nhigh 0\nmax 12\noom 1\noom_kill 0\noom_group_kill 0\n", False),
        ("", False),
    ],
)
def test_only_a_kill_for_the_runs_own_limit_counts(home: Path, events: str, is_exceeded: bool) -> None:  # noqa: FBT001
    group = created(home)
    (group.folder / "memory.events").write_text(events)
    assert group.is_exceeded() is is_exceeded


def supervisor(watched: Path, home: Path | None, monkeypatch: pytest.MonkeyPatch) -> RunSupervisor:
    """Return the supervisor of a run whose group is below `home`."""
    monkeypatch.setattr(supervising, "own_cgroup", lambda: home)
    specification = {
        "watched": str(watched),
        "memory_bytes": LIMIT,
        "disk_bytes": MIB,
        "confined": {"layers": []},
    }
    return RunSupervisor(specification, Mock(), launcher=Mock(), wakeup=Mock())


def test_the_kernel_decides_for_a_run_in_its_own_group(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervised = supervisor(tmp_path, home, monkeypatch)
    monkeypatch.setattr(supervised, "kill", Mock())
    assert supervised.cgroup
    (supervised.cgroup.folder / "memory.events").write_text("oom 1\noom_kill 1\n")
    supervised.check_memory()
    assert supervised.stopped_for == "memory_limit"


@pytest.mark.parametrize(
    ("group", "mounts", "expected"),
    [
        ("0::/system.slice/w\n", "c /cg cgroup2 rw 0 0\n", Path("/cg/system.slice/w")),
        ("0::/\n", "c /cg cgroup2 rw 0 0\n", None),
        ("1:memory:/a\n", "c /cg cgroup2 rw 0 0\n", None),
        ("0::/a\n", "c /cg cgroup rw 0 0\n", None),
    ],
)
def test_the_supervisors_own_group_is_found(
    group: str, mounts: str, expected: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"/proc/self/cgroup": group, "/proc/self/mounts": mounts}
    monkeypatch.setattr(Path, "read_text", lambda path: files[str(path)])
    assert usage.own_cgroup() == expected


def test_an_incomplete_group_is_removed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(group: MemoryCgroup, _: int) -> None:
        group.folder.mkdir()
        raise OSError

    monkeypatch.setattr(MemoryCgroup, "make", fail)
    assert MemoryCgroup.create(LIMIT, home=home) is None
    assert list(home.parent.glob("sandbox-run-*")) == []


def test_many_files_do_not_delay_the_check_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting files can take seconds; memory must be checked meanwhile."""
    for number in range(5):
        (tmp_path / str(number)).touch()
    check = Mock()
    monkeypatch.setattr(supervising, "CHECK_MEMORY_SECONDS", 0)
    supervised = supervisor(tmp_path, None, monkeypatch)
    monkeypatch.setattr(supervised, "check_memory", check)
    supervised.check_disk()
    assert check.call_count == 5


def test_removing_a_group_twice_is_harmless(home: Path) -> None:
    group = MemoryCgroup(home.parent / "sandbox-run-1", home=home)
    group.folder.mkdir()
    group.remove()
    group.remove()
    assert not group.folder.exists()


@contextlib.contextmanager
def sharers(*, is_hidden: bool = False) -> Iterator[list[int]]:
    """Yield two processes that share 64 MiB; the second can hide its memory map."""
    ready, done = os.pipe()
    with mmap.mmap(-1, 64 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        for offset in range(0, len(block), PAGE_BYTES):
            block[offset] = 1
        child = os.fork()
        if child == 0:
            confine.prctl(PR_SET_DUMPABLE, not is_hidden)
            os.write(done, b"!")
            time.sleep(60)
            os._exit(0)
        os.read(ready, 1)
        try:
            yield [os.getpid(), child]
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(ready)
            os.close(done)


def test_resident_memory_counts_shared_pages_for_each() -> None:
    before = resident_bytes(os.getpid())
    with sharers() as pids:
        assert sum(map(resident_bytes, pids)) > before + 120 * MIB


def test_proportional_memory_counts_shared_pages_once() -> None:
    with sharers() as pids:
        assert sum(map(proportional_bytes, pids)) < sum(map(resident_bytes, pids)) - 56 * MIB


def test_shared_memory_is_divided_only_above_the_limit() -> None:
    with sharers() as pids:
        summed = sum(map(resident_bytes, pids))
        assert memory_use(pids, limit=2 * summed) > summed - 8 * MIB
        assert memory_use(pids, limit=summed // 2) < summed - 56 * MIB


def test_a_process_that_has_ended_uses_nothing() -> None:
    assert resident_bytes(NO_PROCESS) == proportional_bytes(NO_PROCESS) == 0
    assert memory_use([NO_PROCESS], limit=-1) == 0


def test_memory_of_a_process_that_hides_it_counts_in_full() -> None:
    with sharers(is_hidden=True) as pids:
        resident = resident_bytes(pids[1])
        assert resident > 64 * MIB
        assert abs(without_capabilities(lambda: proportional_bytes(pids[1])) - resident) < MIB
