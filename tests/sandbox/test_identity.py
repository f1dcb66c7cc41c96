"""User ids of simulators, and the folders that they cannot enter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import identity
from sandbox.identity import LeasedUser, closed_folders, closed_path
from sandbox.layers import SandboxUnavailable
from tests.sandbox.bench import PROJECT, needs_root


@needs_root
def test_two_runs_never_share_an_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "FIRST_UID", identity.LAST_UID - 2)
    leases = [lease for _ in range(3) if (lease := LeasedUser.lease())]
    assert len({lease.uid for lease in leases}) == 3
    with pytest.raises(SandboxUnavailable):
        LeasedUser.lease()
    leases[1].release()
    leases += [lease for lease in [LeasedUser.lease()] if lease]
    assert leases[-1].uid == leases[1].uid
    for lease in leases:
        lease.release()


def test_an_ordinary_user_cannot_lease_an_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert LeasedUser.lease() is None


COUNT = """
import os, threading
from sandbox import confine, identity
confine.become_user(int(os.environ["USER_ID"]))
stop = threading.Event()
threads = [threading.Thread(target=stop.wait) for _ in range(5)]
for thread in threads:
    thread.start()
print(identity.tasks_of_this_user())
stop.set()
"""


@needs_root
def test_all_threads_of_a_user_are_counted() -> None:
    lease = LeasedUser.lease()
    assert lease
    environment = {"USER_ID": str(lease.uid)}
    command = [sys.executable, "-c", COUNT]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "6\n"
    lease.release()


@pytest.fixture
def closed_home(open_directory: Path) -> Path:
    """Return a home directory that only its owner can enter, with a build two levels below it."""
    build = open_directory / "home" / "src" / "build"
    build.mkdir(parents=True)
    (open_directory / "link").symlink_to(build)
    for level in (build.parent, build.parent.parent):
        level.chmod(0o700)
    return open_directory / "home"


def test_the_highest_closed_folder_is_found(closed_home: Path) -> None:
    assert closed_folders([closed_home / "src" / "build"]) == [closed_home]
    assert closed_folders([closed_home.parent / "link", closed_home / "src"]) == [closed_home]


def test_open_folders_are_not_covered(closed_home: Path) -> None:
    for level in (closed_home, closed_home / "src"):
        level.chmod(0o755)
    assert closed_folders([closed_home / "src" / "build", Path("/usr/bin")]) == []


def test_a_closed_path_is_found(closed_home: Path) -> None:
    build = closed_home / "src" / "build"
    assert closed_path([build, build.parent]) == build.parent
    (build / "file").touch(mode=0o600)
    assert closed_path([build, build / "file"]) == build / "file"
