"""The sandbox: the choice of layers, the access of a run, and executables that can run in it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from sandbox import confinement, layers, seccomp
from sandbox.confinement import Confinement, NotRunnable, Sandbox, require_runnable
from sandbox.private_directory import PrivateDirectory
from tests.sandbox.bench import needs_root


def confined(tmp_path: Path, *, proxy_port: int | None = None, uid: int | None = None) -> Confinement:
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


def test_bubblewrap_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert Sandbox.for_mode("required") == Sandbox(None, "required")


@pytest.mark.usefixtures("broken_bubblewrap")
def test_a_bubblewrap_that_does_not_work_is_not_used() -> None:
    assert Sandbox.for_mode("required").bubblewrap is None


@pytest.mark.parametrize("port", [None, 3128])
def test_the_network_of_the_machine_is_never_shared(tmp_path: Path, port: int | None) -> None:
    command = confinement.bubblewrap_command(Path("/bwrap"), confined(tmp_path, proxy_port=port))
    assert "--unshare-net" in command
    assert "/etc/resolv.conf" not in command
    assert "/etc/hosts" not in command
    assert ("/etc/ssl" in command) is (port is not None)


def test_bubblewrap_keeps_no_capabilities(tmp_path: Path) -> None:
    assert "--unshare-user" in confinement.bubblewrap_command(Path("/bwrap"), confined(tmp_path))
    command = confinement.bubblewrap_command(Path("/bwrap"), confined(tmp_path, uid=61184))
    assert command[command.index("--cap-drop") + 1] == "ALL"
    assert "--cap-add" not in command
    assert "--unshare-user" not in command


def test_missing_protections_are_listed() -> None:
    every = {source for sources in layers.PROTECTIONS.values() for source in sources}
    assert layers.missing(every) == []
    assert layers.missing([]) == list(layers.PROTECTIONS)
    assert layers.missing({"landlock", "own_uid", "seccomp", "rlimits"}) == ["network namespace"]


def test_a_machine_without_a_filter_lacks_seccomp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert Sandbox(None).confined(["/bin/true"], confined(tmp_path))["seccomp"] == ""
    assert not seccomp.is_supported("riscv64")


BUBBLEWRAP = Path(shutil.which("bwrap") or "/nowhere/bwrap")


@pytest.mark.skipif(not confinement.bubblewrap_works(BUBBLEWRAP), reason="bubblewrap is absent or cannot work here")
def test_bubblewrap_alone_leaves_one_directory_writable(tmp_path: Path) -> None:
    granted = confined(tmp_path)
    paths = f"/here /dev/here /dev/shm/here {tmp_path}/here ../here here"
    script = f"cd {granted.directory.cwd}; for place in {paths}; do touch $place && echo $place; done"
    command = confinement.bubblewrap_command(BUBBLEWRAP, granted)
    done = subprocess.run([*command, "--", "/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["here"]


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


def test_an_executable_outside_the_build_is_not_runnable(executable: Path, tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "simc").symlink_to(executable)
    with pytest.raises(NotRunnable, match=f"leads to {executable}"):
        require_runnable(tmp_path / "build" / "simc", readable=[tmp_path / "build"])


@needs_root
def test_a_closed_build_is_rejected_by_name(executable: Path) -> None:
    executable.chmod(0o700)
    with pytest.raises(NotRunnable, match=f"{executable} is closed to other users"):
        require_runnable(executable, readable=[executable.parent])


def test_a_plain_file_is_not_runnable(executable: Path) -> None:
    executable.chmod(0o644)
    with pytest.raises(NotRunnable, match="not an executable"):
        require_runnable(executable, readable=[executable.parent])


@pytest.mark.parametrize("path", ["simc", "/nowhere/simc", "/usr"])
def test_other_paths_are_not_runnable(path: str) -> None:
    with pytest.raises(NotRunnable):
        require_runnable(Path(path), readable=[])
