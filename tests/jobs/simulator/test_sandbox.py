"""The private directory, what may be taken out of it, and the choice of layers."""

import itertools
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.simulator import identity, landlock, layers, sandbox, seccomp, usage
from jobs.simulator.identity import LeasedUser, closed_folders, closed_path
from jobs.simulator.layers import SandboxUnavailable
from jobs.simulator.private_directory import PrivateDirectory, UnsafeOutput, open_output, remove_tree
from jobs.simulator.sandbox import Confinement, NotRunnable, Sandbox, require_runnable
from tests.jobs.simulator.bench import PROJECT

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a simulator as somebody else")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# The private directory


def test_layout(tmp_path: Path) -> None:
    directory = PrivateDirectory.create(tmp_path)
    assert directory.cwd.parent.parent == directory.root
    assert directory.log("stdout").parent == directory.root
    assert (mode(directory.root), mode(directory.cwd.parent), mode(directory.cwd)) == (0o711, 0o711, 0o700)


def test_layout_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        directory = PrivateDirectory.create(tmp_path)
    finally:
        os.umask(before)
    assert (mode(directory.root), mode(directory.cwd.parent), mode(directory.cwd)) == (0o711, 0o711, 0o700)


@needs_root
def test_hand_over_and_take_back(tmp_path: Path) -> None:
    directory = PrivateDirectory.create(tmp_path)
    kept = tmp_path / "kept"
    kept.touch()
    (directory.cwd / "link").symlink_to(kept)
    (directory.cwd / "input").touch()
    directory.hand_over(61184)
    assert [path.stat().st_uid for path in (directory.cwd, directory.cwd / "input", kept)] == [61184, 61184, 0]
    assert directory.cwd.parent.stat().st_uid == 0
    directory.take_back()
    assert directory.cwd.stat().st_uid == 0


def test_it_is_removed_when_the_block_is_left_and_may_be_gone_already(tmp_path: Path) -> None:
    with PrivateDirectory.create(tmp_path) as directory:
        (directory.cwd / "report").touch()
        directory.remove()
        assert list(tmp_path.iterdir()) == []
    with PrivateDirectory.create(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_removal_does_not_follow_links(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o500)
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to(kept)
    (tmp_path / "top" / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "top" / "fifo")
    remove_tree(tmp_path / "top")
    assert list(tmp_path.iterdir()) == [kept]
    assert mode(kept) == 0o500


def test_removal_of_a_tree_deeper_than_any_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = tmp_path / "top"
    top.mkdir()
    monkeypatch.chdir(top)
    for _ in range(1500):
        Path("deeper").mkdir()
        Path("file").touch()
        os.chdir("deeper")
    Path().chmod(0)
    monkeypatch.undo()
    remove_tree(top)
    assert not top.exists()


def test_removal_of_closed_directories(tmp_path: Path) -> None:
    (tmp_path / "top" / "a" / "b").mkdir(parents=True)
    (tmp_path / "top" / "a" / "b" / "c").touch()
    for closed in ("top/a/b", "top/a", "top"):
        (tmp_path / closed).chmod(0)
    remove_tree(tmp_path / "top")
    assert list(tmp_path.iterdir()) == []


# Products


def test_a_product_is_opened(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(b"12345")
    product = open_output(tmp_path, "report.json", max_bytes=5)
    assert product
    with product:
        assert product.read() == b"12345"


def test_a_product_that_is_missing(tmp_path: Path) -> None:
    assert open_output(tmp_path, "report.json", max_bytes=5) is None


UNSAFE: dict[str, Callable[[Path], object]] = {
    "symbolic link": lambda path: path.symlink_to("/etc/passwd"),
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "hard link": lambda path: path.hardlink_to(path.parent.parent / "other"),
    "fifo": os.mkfifo,
    "directory": Path.mkdir,
    "socket": lambda path: socket.socket(socket.AF_UNIX).bind(str(path)),
    "too large": lambda path: path.write_bytes(b"123456"),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("make", UNSAFE.values(), ids=UNSAFE)
def test_an_unsafe_product_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object]
) -> None:
    (tmp_path / "other").touch()
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "cwd" / "report.json")
    with pytest.raises(UnsafeOutput):
        open_output(tmp_path / "cwd", "report.json", max_bytes=5)


@pytest.mark.parametrize("name", ["", ".", "..", "../other", "/etc/passwd", "a/b"])
def test_a_product_is_named_plainly(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsafeOutput):
        open_output(tmp_path, name, max_bytes=5)


# The identity


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


def test_an_ordinary_user_has_no_identity_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert LeasedUser.lease() is None


@pytest.fixture
def closed_home(open_place: Path) -> Path:
    """Return a home directory that only its owner may pass, with a build two levels below it."""
    build = open_place / "home" / "src" / "build"
    build.mkdir(parents=True)
    (open_place / "link").symlink_to(build)
    for level in (build.parent, build.parent.parent):
        level.chmod(0o700)
    return open_place / "home"


def test_the_highest_closed_folder_is_found(closed_home: Path) -> None:
    assert closed_folders([closed_home / "src" / "build"]) == [closed_home]
    assert closed_folders([closed_home.parent / "link", closed_home / "src"]) == [closed_home]


def test_open_folders_are_not_covered(closed_home: Path) -> None:
    for level in (closed_home, closed_home / "src"):
        level.chmod(0o755)
    assert closed_folders([closed_home / "src" / "build", Path("/usr/bin")]) == []


def test_a_path_that_is_itself_closed_is_found(closed_home: Path) -> None:
    build = closed_home / "src" / "build"
    assert closed_path([build, build.parent]) == build.parent
    (build / "file").touch(mode=0o600)
    assert closed_path([build, build / "file"]) == build / "file"


# Layers


def confinement(tmp_path: Path, *, proxy_port: int | None = None, uid: int | None = None) -> Confinement:
    return Confinement(
        directory=PrivateDirectory.create(tmp_path),
        readable=[tmp_path],
        proxy_port=proxy_port,
        uid=uid,
        resource_limits={},
        memory_bytes=1,
        disk_bytes=1,
        wall_seconds=1,
    )


@pytest.fixture
def broken_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bubblewrap that is installed and may not create namespaces, as in most containers."""
    (tmp_path / "bwrap").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_without_bubblewrap_the_other_layers_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert Sandbox.for_mode("required") == Sandbox(None, "required")


@pytest.mark.usefixtures("broken_bubblewrap")
def test_a_bubblewrap_that_cannot_work_is_not_used() -> None:
    assert Sandbox.for_mode("required").bubblewrap is None


@pytest.mark.parametrize("port", [None, 3128])
def test_the_network_of_the_machine_is_never_shared(tmp_path: Path, port: int | None) -> None:
    command = sandbox.bubblewrap_command(Path("/bwrap"), confinement(tmp_path, proxy_port=port))
    assert "--unshare-net" in command
    assert "/etc/resolv.conf" not in command
    assert "/etc/hosts" not in command
    assert ("/etc/ssl" in command) is (port is not None)


def test_capabilities_are_added_only_for_another_identity(tmp_path: Path) -> None:
    assert "--cap-add" not in sandbox.bubblewrap_command(Path("/bwrap"), confinement(tmp_path))
    command = sandbox.bubblewrap_command(Path("/bwrap"), confinement(tmp_path, uid=61184))
    granted = [after for before, after in itertools.pairwise(command) if before == "--cap-add"]
    assert granted == ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"]
    assert command[command.index("--cap-drop") + 1] == "ALL"
    assert "--unshare-user" not in command


def test_each_protection_has_a_layer_that_is_missed() -> None:
    every = {source for sources in layers.PROTECTIONS.values() for source in sources}
    assert layers.missing(every) == []
    assert layers.missing([]) == list(layers.PROTECTIONS)
    assert layers.missing({"landlock", "own_uid", "seccomp", "rlimits"}) == ["network namespace"]


def test_a_machine_without_a_filter_lacks_seccomp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert Sandbox(None).second_stage(["/bin/true"], confinement(tmp_path))["seccomp"] == ""
    assert not seccomp.is_supported("riscv64")


BUBBLEWRAP = Path(shutil.which("bwrap") or "/nowhere/bwrap")


@pytest.mark.skipif(not sandbox.bubblewrap_works(BUBBLEWRAP), reason="bubblewrap is absent or cannot work here")
def test_bubblewrap_alone_leaves_one_directory_writable(tmp_path: Path) -> None:
    granted = confinement(tmp_path)
    places = f"/here /dev/here /dev/shm/here {tmp_path}/here ../here here"
    script = f"cd {granted.directory.cwd}; for place in {places}; do touch $place && echo $place; done"
    command = sandbox.bubblewrap_command(BUBBLEWRAP, granted)
    done = subprocess.run([*command, "--", "/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["here"]


# Executables


@pytest.fixture
def executable(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    path = tmp_path / "simc"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_an_executable_of_the_build_or_the_system_is_runnable(executable: Path) -> None:
    require_runnable(executable, readable=[executable.parent])
    require_runnable(Path("/bin/sh"), readable=[])


def test_an_executable_outside_of_the_build_is_not_runnable(executable: Path, tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "simc").symlink_to(executable)
    with pytest.raises(NotRunnable, match=f"leads to {executable}"):
        require_runnable(tmp_path / "build" / "simc", readable=[tmp_path / "build"])


@needs_root
def test_a_build_that_is_closed_is_refused_by_name(executable: Path) -> None:
    executable.chmod(0o700)
    with pytest.raises(NotRunnable, match=f"{executable} is closed to other users"):
        require_runnable(executable, readable=[executable.parent])


def test_a_plain_file_is_not_runnable(executable: Path) -> None:
    executable.chmod(0o644)
    with pytest.raises(NotRunnable, match="not an executable"):
        require_runnable(executable, readable=[executable.parent])


@pytest.mark.parametrize("path", ["simc", "/nowhere/simc", "/usr"])
def test_what_is_no_executable_at_all_is_not_runnable(path: str) -> None:
    with pytest.raises(NotRunnable):
        require_runnable(Path(path), readable=[])


# The launcher's parts


@pytest.mark.parametrize(("abi", "bits"), [(1, 13), (2, 14), (3, 15), (4, 15), (5, 16), (7, 16)])
def test_rights_known_to_each_kernel(abi: int, bits: int) -> None:
    assert landlock.file_rights(abi) == (1 << bits) - 1


def test_disk_use_counts_entries_and_blocks_but_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "large").write_bytes(bytes(100_000))
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to("/usr")
    assert 110_000 < usage.disk_use(str(tmp_path), limit=1 << 30, on_entry=lambda: None) < 130_000


def test_the_walk_ends_with_enough(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).touch()
    assert usage.disk_use(str(tmp_path), limit=10_000, on_entry=lambda: None) == 3 * usage.ENTRY_BYTES


def test_disk_use_of_a_directory_that_is_gone(tmp_path: Path) -> None:
    assert usage.disk_use(str(tmp_path / "gone"), limit=1, on_entry=lambda: None) == 0


ALONE = """
import os, socket, sys
sys.path.insert(0, sys.argv[1])
from jobs.simulator import enter, landlock
enter.prctl(enter.PR_SET_NO_NEW_PRIVS, 1)
assert landlock.restrict(readable=["/"], writable=[], tcp_port=None)
for action in (
    lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2]))),
    lambda: socket.create_server(("127.0.0.1", 0)),
    lambda: os.kill(os.getppid(), 0),
    lambda: open("/dev/null", "w"),
):
    try:
        action()
    except PermissionError:
        print("refused")
    else:
        print("WORKED")
"""


@pytest.mark.skipif(
    landlock.version() < landlock.SIGNALS_SINCE, reason="this kernel's Landlock covers files only, if it has one"
)
def test_landlock_alone_holds_files_network_and_signals(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-S", "-c", ALONE, str(PROJECT), str(server.getsockname()[1])]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert printed.split() == ["refused"] * 4


LOWER = """
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from jobs.simulator import enter
setrlimit(RLIMIT_NOFILE, (50, 60))
enter.limit_resources({"RLIMIT_NOFILE": (64, 64)})
print(*getrlimit(RLIMIT_NOFILE))
"""


def test_a_limit_that_is_already_lower_stays() -> None:
    done = subprocess.run([sys.executable, "-c", LOWER], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout == "60 60\n"
