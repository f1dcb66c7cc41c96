"""The private directory of a run, and access to the output files in it."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.private_directory import PrivateDirectory, UnsafeOutput, open_output, remove_tree
from tests.sandbox.bench import Bench, needs_root


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_logs_are_out_of_the_simulators_reach(tmp_path: Path) -> None:
    directory = PrivateDirectory.create(tmp_path)
    assert directory.cwd.parent.parent == directory.root
    assert directory.log("stdout").parent == directory.root
    assert (mode(directory.root), mode(directory.cwd.parent), mode(directory.cwd)) == (0o711, 0o711, 0o700)


def test_permissions_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        directory = PrivateDirectory.create(tmp_path)
    finally:
        os.umask(before)
    assert (mode(directory.root), mode(directory.cwd.parent), mode(directory.cwd)) == (0o711, 0o711, 0o700)


@needs_root
def test_only_the_working_directory_changes_its_owner(tmp_path: Path) -> None:
    directory = PrivateDirectory.create(tmp_path)
    outside = tmp_path / "kept"
    outside.touch()
    (directory.cwd / "link").symlink_to(outside)
    (directory.cwd / "input").touch()
    directory.hand_over(61184)
    assert [path.stat().st_uid for path in (directory.cwd, directory.cwd / "input", outside)] == [61184, 61184, 0]
    assert directory.cwd.parent.stat().st_uid == 0
    directory.take_back()
    assert directory.cwd.stat().st_uid == 0


def test_leaving_the_block_removes_the_directory(tmp_path: Path) -> None:
    with PrivateDirectory.create(tmp_path) as directory:
        (directory.cwd / "report").touch()
        directory.remove()
        assert list(tmp_path.iterdir()) == []
    with PrivateDirectory.create(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_removal_does_not_follow_links(tmp_path: Path) -> None:
    outside = tmp_path / "kept"
    outside.mkdir(mode=0o500)
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to(outside)
    (tmp_path / "top" / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "top" / "fifo")
    remove_tree(tmp_path / "top")
    assert list(tmp_path.iterdir()) == [outside]
    assert mode(outside) == 0o500


def test_a_tree_deeper_than_any_path_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_directories_without_permissions_are_removed(tmp_path: Path) -> None:
    (tmp_path / "top" / "a" / "b").mkdir(parents=True)
    (tmp_path / "top" / "a" / "b" / "c").touch()
    for closed in ("top/a/b", "top/a", "top"):
        (tmp_path / closed).chmod(0)
    remove_tree(tmp_path / "top")
    assert list(tmp_path.iterdir()) == []


def test_an_output_file_is_opened(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(b"12345")
    product = open_output(tmp_path, "report.json", max_bytes=5)
    assert product
    with product:
        assert product.read() == b"12345"


def test_a_missing_output_file_is_none(tmp_path: Path) -> None:
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
def test_an_unsafe_output_file_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object]
) -> None:
    (tmp_path / "other").touch()
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "cwd" / "report.json")
    with pytest.raises(UnsafeOutput):
        open_output(tmp_path / "cwd", "report.json", max_bytes=5)


@pytest.mark.parametrize("name", ["", ".", "..", "../other", "/etc/passwd", "a/b"])
def test_a_name_that_is_a_path_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsafeOutput):
        open_output(tmp_path, name, max_bytes=5)


def test_files_that_are_not_reports_are_rejected(bench: Bench) -> None:
    bench.run("leaves", "/etc/passwd")
    for name in ("link.json", "fifo.json", "directory.json"):
        if os.path.lexists(bench.directory.cwd / name):
            with pytest.raises(UnsafeOutput):
                open_output(bench.directory.cwd, name, max_bytes=100)
    product = open_output(bench.directory.cwd, "good.json", max_bytes=100)
    assert product
    with product:
        assert product.read() == b"{}"
