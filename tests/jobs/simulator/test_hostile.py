"""Hostile simulators that try to leave the sandbox, with and without bubblewrap.

`test_ordinary_user.py` runs all of this once more as a worker without root's rights.
"""

import dataclasses
import errno
import functools
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

import psutil
import pytest

from jobs.simulator import landlock, seccomp
from jobs.simulator.command import PROXY_PORT
from jobs.simulator.layers import PROTECTIONS
from jobs.simulator.private_directory import PrivateDirectory
from jobs.simulator.process import SimulatorNotStarted, take_listener
from tests.jobs.simulator.bench import PROJECT, Bench, needs_landlock, needs_root, sandboxes

only_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="this machine has no such ABI")
MIB = 1 << 20


def refusals(bench: Bench) -> set[int]:
    """Return the error numbers of all attempts; fail when one worked."""
    lines = [line for line in bench.printed() if "refused" in line or "WORKED" in line]
    assert lines, "nothing was attempted"
    assert not [line for line in lines if "WORKED" in line]
    return {int(line.rpartition(" ")[2]) for line in lines}


# Files, processes and the network


def test_rights_cannot_be_gained(bench: Bench) -> None:
    bench.run("gains")
    assert bench.printed()[0].startswith("root refused")
    assert bench.printed()[1] == "no_new_privs 1"


@needs_landlock
def test_only_its_own_directory_is_writable(bench: Bench, tmp_path: Path) -> None:
    shared = [Path(tempfile.gettempdir()), Path("/dev", "shm"), Path("/")]
    places = [bench.build, tmp_path, PROJECT, Path(".."), *shared]
    targets = [place / f"written-by-{tmp_path.name}" for place in places]
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
        ended = bench.run("reaches_out", sibling.pid, secret)
        assert resource.prlimit(sibling.pid, resource.RLIMIT_CPU) == limits
        assert os.getpriority(os.PRIO_PROCESS, sibling.pid) == priority
        sibling.kill()
    assert refusals(bench) == {errno.EPERM}
    assert ended.exit_status == 0
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


# Sockets with a path


@contextmanager
def unix_servers(folder: Path) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Listen as a database does, and as a log does, on sockets that everybody may use."""
    with socket.socket(socket.AF_UNIX) as stream, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram:
        for server, name in ((stream, "stream"), (datagram, "datagram")):
            server.bind(str(folder / name))
            (folder / name).chmod(0o777)
            server.settimeout(0.2)
        stream.listen()
        yield stream, datagram


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


# System calls


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
    ended = bench.run(behaviour)
    assert ended.signal == signal.SIGSYS
    assert bench.printed() == []


def test_nothing_can_be_typed_into_a_terminal(bench: Bench) -> None:
    bench.run("terminal")
    assert refusals(bench) == {errno.EPERM}


# Rights


def test_no_capability_is_left(bench: Bench) -> None:
    bench.run("capabilities")
    assert bench.printed() == ["effective 0 permitted 0 inheritable 0", "ambient 0", "bounding 0"]


def test_no_descriptor_is_left_behind(bench: Bench) -> None:
    bench.run("inherited")
    assert bench.printed() == ["0 False", "1 False", "2 False"]


@pytest.fixture
def closed_build(open_place: Path) -> Path:
    """Return a build, and beside it a secret, in a home directory that only its owner may pass."""
    build = open_place / "home" / "src" / "build"
    build.mkdir(parents=True)
    (build / "data").write_text("its own")
    (open_place / "home" / "secret").write_text("somebody's")
    (open_place / "home").chmod(0o700)
    return build


@needs_root
def test_a_build_below_a_closed_folder_runs(bench: Bench, closed_build: Path) -> None:
    simulator = closed_build / "simulator"
    simulator.write_text(
        "#!/bin/sh\ncat data 2>&1; cat $1/data $1/../../secret 2>&1; echo x 2>&1 >$1/data; echo y >here"
    )
    simulator.chmod(0o755)
    bench.build, bench.executable = closed_build, simulator
    with PrivateDirectory.create(closed_build.parent) as bench.directory:
        ended = bench.run(closed_build)
        assert (bench.directory.cwd / "here").read_text() == "y\n"
    assert ended.exit_status == 0
    assert "its own" in bench.printed()[1]
    assert "somebody's" not in "".join(bench.printed())
    assert (closed_build / "data").read_text() == "its own"
    assert closed_build.parents[1].stat().st_mode & 0o777 == 0o700


# Game credentials


class Answerer:
    """Stands in for the proxy: answers every connection and keeps what it received."""

    def __init__(self, heard: list[bytes], listener: socket.socket) -> None:
        self.listener = listener
        self.heard = heard
        self.thread = threading.Thread(target=self.answer)

    def answer(self) -> None:
        self.listener.settimeout(10)
        with self.listener, self.listener.accept()[0] as connection:
            self.heard.append(connection.recv(100))
            connection.sendall(b"here")

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.thread.join()


@contextmanager
def machine_servers() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Serve on the machine's own loopback interface, by TCP and by UDP on one port."""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        udp.bind(tcp.getsockname())
        for server in (tcp, udp):
            server.settimeout(0.2)
        yield tcp, udp


def test_with_game_credentials_there_is_one_exit(bench: Bench) -> None:
    heard: list[bytes] = []
    bench.proxy = functools.partial(Answerer, heard)
    with machine_servers() as (tcp, udp):
        ended = bench.run("exits", PROXY_PORT, tcp.getsockname()[1])
        with pytest.raises(TimeoutError):
            tcp.accept()
        with pytest.raises(TimeoutError):
            udp.recv(100)
    assert "game_api_exit" in ended.layers
    assert heard == [b"CONNECT somewhere"]
    assert bench.printed()[0] == "exit here"
    assert landlock.version() < landlock.TCP_SINCE or bench.printed()[-1].startswith("listen refused")
    assert "tcp WORKED" not in "".join(bench.printed())


def test_with_game_credentials_unix_sockets_stay_refused(bench: Bench) -> None:
    bench.proxy = closing
    with unix_servers(bench.build):
        bench.run("unix_sockets", bench.build / "stream", bench.build / "datagram")
    refusals(bench)


def test_with_game_credentials_no_resolver_is_shown(bench: Bench) -> None:
    bench.proxy = closing
    bench.run("reads", "/etc/resolv.conf", "/etc/hosts")
    assert refusals(bench) <= {errno.EACCES, errno.ENOENT}


def test_the_listener_is_gone_with_the_simulator(bench: Bench) -> None:
    before = {path.name for path in Path("/proc/self/fd").iterdir()}
    bench.proxy = closing
    bench.run("status", 0)
    assert {path.name for path in Path("/proc/self/fd").iterdir()} == before


NOT_EXITS: dict[str, Callable[[], list[int]]] = {
    "nothing": list,
    "two": lambda: [socket.create_server(("127.0.0.1", 0)).detach() for _ in range(2)],
    "a file": lambda: [os.open("/dev/null", os.O_RDONLY)],
    "a socket that does not listen": lambda: [socket.socket().detach()],
    "another family": lambda: [socket.create_server(("::1", 0), family=socket.AF_INET6).detach()],
    "datagrams": lambda: [socket.socket(type=socket.SOCK_DGRAM).detach()],
}


@pytest.mark.parametrize("make", NOT_EXITS.values(), ids=NOT_EXITS)
def test_what_is_no_listening_socket_is_no_exit(make: Callable[[], list[int]]) -> None:
    descriptors = make()
    with pytest.raises(SimulatorNotStarted):
        take_listener(descriptors)
    for descriptor in descriptors:
        os.close(descriptor)


def test_descriptors_that_are_no_exit_are_closed(bench: Bench) -> None:
    process = bench.process("status", 0)
    process.received = [os.open("/dev/null", os.O_RDONLY) for _ in range(2)]
    left = process.received[:]
    process.close()
    for descriptor in left:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


# Memory


def test_the_kernel_ends_a_simulator_before_the_worker(bench: Bench) -> None:
    with bench.process("hoard", 1, 1) as process:
        assert bench.heard("holding 1")
        assert process.launcher
        simulator = psutil.Process(process.launcher.pid).children(recursive=True)[-1]
        assert Path("/proc", str(simulator.pid), "oom_score_adj").read_text() == "1000\n"


@pytest.mark.parametrize("behaviour", ["hoard", "headless_hoard"])
def test_memory_is_limited_for_all_processes_together(bench: Bench, behaviour: str) -> None:
    bench.limit(memory_bytes=256 * MIB)
    ended = bench.run(behaviour, 6, 60)
    assert (ended.signal, ended.stopped_for) == (signal.SIGKILL, "memory_limit")
    assert ended.wall_seconds < 20


def test_memory_that_processes_share_counts_once(bench: Bench) -> None:
    bench.limit(memory_bytes=256 * MIB)
    ended = bench.run("share", 6, 100)
    assert (ended.exit_status, ended.stopped_for) == (0, None)
    assert bench.printed() == ["seeing True"] * 6


def test_memory_cannot_be_hidden(bench: Bench) -> None:
    bench.run("hide")
    assert refusals(bench) <= {errno.EPERM, errno.EACCES, errno.ENOENT}


@pytest.fixture
def folder_in_memory(bench: Bench) -> Iterator[Bench]:
    """Put the private directory on a tmpfs."""
    shared = Path("/dev", "shm")
    if not os.access(shared, os.W_OK):
        pytest.skip("this machine offers no tmpfs")
    with tempfile.TemporaryDirectory(dir=shared) as place:
        Path(place).chmod(0o755)
        with PrivateDirectory.create(Path(place)) as bench.directory:
            yield bench


def test_files_in_memory_count_as_memory(folder_in_memory: Bench) -> None:
    bench = folder_in_memory
    bench.limit(memory_bytes=128 * MIB, disk_bytes=512 * MIB, file_bytes=8 * MIB)
    ended = bench.run("fill_directory", 140)
    assert ended.stopped_for == "memory_limit"


# Layers that are missing

DRIVER = """
import sys
from contextlib import closing
from pathlib import Path
from jobs.simulator.process import Limits, SimulatorNotStarted, SimulatorProcess
from jobs.simulator.private_directory import PrivateDirectory
from jobs.simulator.sandbox import Sandbox

limits = Limits(wall_seconds=60, cpu_seconds=60, memory_bytes=1 << 30, file_bytes=1 << 20, disk_bytes=1 << 20,
                processes=30, open_files=64, log_bytes=1000, output_bytes=100000)
process = SimulatorProcess(["/bin/sh", "-c", sys.argv[5]], limits=limits,
                           directory=PrivateDirectory(Path(sys.argv[1])), sandbox=Sandbox.for_mode(sys.argv[2]),
                           readable=[Path(sys.argv[4])], on_line=lambda stream, text: print(text),
                           proxy={"closing": closing}.get(sys.argv[3]))
try:
    with process:
        process.wait(20)
        print("ran with", *process.layers)
except SimulatorNotStarted as error:
    print(error)
"""


@pytest.fixture
def in_container(open_place: Path) -> Callable[..., str]:
    """Return what runs a simulator where some system calls are refused, and says how that went."""

    def run(mode: str, *denied: str, proxy: str = "none", readable: Path = open_place, script: str = "true") -> str:
        container = ["-m", "tests.jobs.simulator.container", ",".join(denied)]
        arguments = [str(PrivateDirectory.create(open_place).root), mode, proxy, str(readable), script]
        command = [sys.executable, *container, sys.executable, "-c", DRIVER, *arguments]
        return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout

    return run


def test_a_worker_without_landlock_and_namespaces_is_refused(in_container: Callable[..., str]) -> None:
    said = in_container("required", "landlock", "unshare", "clone")
    assert "the sandbox lacks: file system view" in said
    assert "network namespace" in said


@needs_root
def test_auto_runs_a_root_worker_without_them(in_container: Callable[..., str]) -> None:
    assert in_container("auto", "landlock", "unshare", "clone") == "ran with own_uid rlimits seccomp\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root can give an identity of its own")
def test_auto_refuses_an_ordinary_worker_without_them(in_container: Callable[..., str]) -> None:
    assert "the sandbox lacks: own identity or Landlock" in in_container("auto", "landlock", "unshare", "clone")


@pytest.mark.parametrize("mode", ["required", "auto"])
def test_without_seccomp_nothing_runs(in_container: Callable[..., str], mode: str) -> None:
    assert "the sandbox lacks: seccomp" in in_container(mode, "seccomp")


def test_no_namespace_means_no_game_credentials(in_container: Callable[..., str]) -> None:
    assert "game credentials need a network namespace" in in_container("auto", "unshare", "clone", proxy="closing")


@needs_root
def test_a_closed_build_without_mounts_is_refused_by_name(
    in_container: Callable[..., str], closed_build: Path
) -> None:
    home = closed_build.parents[1]
    said = in_container("auto", "mount", "clone", readable=closed_build)
    assert f"other users cannot enter {home}" in said
    assert f"chmod o+x {home}" in said


@pytest.mark.skipif(len(list(sandboxes())) < 2, reason="bubblewrap is absent or cannot work here")
def test_bubblewrap_shows_few_devices(in_container: Callable[..., str]) -> None:
    """Shared memory can be taken through some of the others, and Landlock may be missing."""
    assert in_container("auto", "landlock", script="ls /dev").splitlines()[:-1] == ["null", "urandom"]


@needs_root
def test_a_build_below_a_closed_folder_is_read_only(in_container: Callable[..., str], closed_build: Path) -> None:
    (closed_build / "data").chmod(0o666)
    script = f"echo mine > {closed_build}/data || echo refused"
    assert "refused" in in_container("auto", "landlock", "clone", readable=closed_build, script=script)
    assert (closed_build / "data").read_text() == "its own"


UNSCOPED = """
from jobs.simulator import enter, landlock
landlock.version = lambda: 5
print(*enter.leave_network())
"""


@pytest.mark.skipif(os.geteuid() == 0, reason="root needs no user namespace")
def test_a_user_namespace_that_lets_signals_out_is_no_identity() -> None:
    done = subprocess.run([sys.executable, "-c", UNSCOPED], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["network_namespace"]


@needs_landlock
def test_required_runs_where_every_protection_holds(bench: Bench) -> None:
    bench.sandbox = dataclasses.replace(bench.sandbox, mode="required")
    layers = bench.run("status", 0).layers
    assert all(set(sources) & set(layers) for sources in PROTECTIONS.values())
