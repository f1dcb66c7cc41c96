"""Hostile simulators that try to leave the sandbox, with and without bubblewrap.

`test_ordinary_user.py` runs these tests again as a worker without root's rights.
"""

import errno
import os
import platform
import resource
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from sandbox import seccomp
from sandbox.private_directory import PrivateDirectory
from tests.sandbox.bench import PROJECT, Bench, needs_landlock, needs_root, refusals, unix_servers

only_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="this machine has no such ABI")


def test_rights_cannot_be_gained(bench: Bench) -> None:
    bench.run("gains")
    assert bench.printed()[0].startswith("root refused")
    assert bench.printed()[1] == "no_new_privs 1"


@needs_landlock
def test_only_its_own_directory_is_writable(bench: Bench, tmp_path: Path) -> None:
    shared = [Path(tempfile.gettempdir()), Path("/dev", "shm"), Path("/")]
    directories = [bench.build, tmp_path, PROJECT, Path(".."), *shared]
    targets = [directory / f"written-by-{tmp_path.name}" for directory in directories]
    bench.run("writes", *targets, bench.directory.log("stdout"))
    assert len(bench.printed()) == len(targets) + 1
    assert all("refused" in line for line in bench.printed())
    assert (bench.directory.cwd / "inside.txt").read_text() == "allowed"
    assert not any(target.exists() for target in targets[:-1])


@needs_landlock
def test_others_memory_and_files_cannot_be_read(bench: Bench) -> None:
    secret = bench.top / "secret"
    secret.write_text("secret")
    secret.chmod(0o644)
    bench.run("looks", os.getpid(), secret)
    assert len(bench.printed()) == 5
    assert all("refused" in line for line in bench.printed())


@needs_landlock
def test_others_cannot_be_killed(bench: Bench) -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as sibling:
        bench.run("kills", sibling.pid, os.getpid())
        assert sibling.poll() is None
        sibling.kill()
    *attempts, last = bench.printed()
    assert len(attempts) == 3
    assert all("refused" in line for line in attempts)
    assert last == "survived"


def test_others_limits_and_files_cannot_be_changed(bench: Bench) -> None:
    secret = bench.build / "secret"
    secret.touch(mode=0o600)
    limits, priority = resource.getrlimit(resource.RLIMIT_CPU), os.getpriority(os.PRIO_PROCESS, 0)
    with subprocess.Popen(["/bin/sleep", "60"]) as sibling:
        result = bench.run("reaches_out", sibling.pid, secret)
        assert resource.prlimit(sibling.pid, resource.RLIMIT_CPU) == limits
        assert os.getpriority(os.PRIO_PROCESS, sibling.pid) == priority
        sibling.kill()
    assert refusals(bench) == {errno.EPERM}
    assert result.exit_status == 0
    assert secret.stat().st_mode & 0o777 == 0o600


def test_every_file_keeps_a_name(bench: Bench) -> None:
    bench.run("nameless")
    assert refusals(bench) == {errno.EPERM}
    assert (bench.directory.cwd / "named").exists()


@needs_landlock
def test_network_is_out_of_reach(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        bench.run("connects", server.getsockname()[1])
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.accept()
    assert bench.printed()[0].startswith("tcp refused")


def test_datagrams_do_not_leave(bench: Bench) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(0.3)
        bench.run("sends", receiver.getsockname()[1])
        with pytest.raises(TimeoutError):
            receiver.recv(100)


def test_unix_sockets_are_out_of_reach(bench: Bench) -> None:
    with unix_servers(bench.build) as (stream, datagram):
        bench.run("unix_sockets", bench.build / "stream", bench.build / "datagram")
        with pytest.raises(TimeoutError):
            stream.accept()
        with pytest.raises(TimeoutError):
            datagram.recv(100)
    refusals(bench)


def test_no_family_of_sockets_is_left(bench: Bench) -> None:
    bench.run("families")
    assert refusals(bench) == {errno.EAFNOSUPPORT}


def test_every_denied_call_is_refused(bench: Bench) -> None:
    column = list(seccomp.ARCHITECTURES).index(platform.machine())
    numbers = {name: numbers[column] for name, numbers in seccomp.DENIED.items()}
    bench.run("calls", *(f"{name}={number}" for name, number in numbers.items() if number is not None))
    assert refusals(bench) == {errno.EPERM}
    assert len(bench.printed()) > 60


def test_no_namespace_can_be_made(bench: Bench) -> None:
    bench.run("namespaces")
    assert refusals(bench) == {errno.EPERM, errno.ENOSYS}
    assert f"clone3 refused {errno.ENOSYS}" in bench.printed()


@only_x86
@pytest.mark.parametrize("behaviour", ["foreign_abi", "x32"])
def test_foreign_calls_kill_the_process(bench: Bench, behaviour: str) -> None:
    result = bench.run(behaviour)
    assert result.signal == signal.SIGSYS
    assert bench.printed() == []


def test_nothing_can_be_typed_into_a_terminal(bench: Bench) -> None:
    bench.run("terminal")
    assert refusals(bench) == {errno.EPERM}


def test_no_capability_is_left(bench: Bench) -> None:
    bench.run("capabilities")
    assert bench.printed() == ["effective 0 permitted 0 inheritable 0", "ambient 0", "bounding 0"]


def test_no_descriptor_is_left_behind(bench: Bench) -> None:
    bench.run("inherited")
    assert bench.printed() == ["0 False", "1 False", "2 False"]


@needs_root
def test_a_build_below_a_closed_folder_runs(bench: Bench, closed_build: Path) -> None:
    simulator = closed_build / "simulator"
    simulator.write_text(
        "#!/bin/sh\ncat data 2>&1; cat $1/data $1/../../secret 2>&1; echo x 2>&1 >$1/data; echo y >here"
    )
    simulator.chmod(0o755)
    bench.build, bench.executable = closed_build, simulator
    with PrivateDirectory.create(closed_build.parent) as bench.directory:
        result = bench.run(closed_build)
        assert (bench.directory.cwd / "here").read_text() == "y\n"
    assert result.exit_status == 0
    assert "its own" in bench.printed()[1]
    assert "somebody's" not in "".join(bench.printed())
    assert (closed_build / "data").read_text() == "its own"
    assert closed_build.parents[1].stat().st_mode & 0o777 == 0o700
