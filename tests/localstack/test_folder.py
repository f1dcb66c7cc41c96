"""The data folder: one stack at a time, secrets for its owner only."""

import subprocess
from pathlib import Path

import pytest

from localstack.console import LocalStackError
from localstack.folder import LOG_BYTES, DataFolder


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path / "data")


def test_a_second_stack_on_the_same_folder_is_rejected(folder: DataFolder) -> None:
    with (
        folder.locked(),
        pytest.raises(LocalStackError, match="A stack already runs"),
        DataFolder(folder.path).locked(),
    ):
        pass


def test_the_folder_is_free_again_after_the_block(folder: DataFolder) -> None:
    for _ in range(2):
        with folder.locked():
            pass


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalStackError, match="cannot be used"), DataFolder(tmp_path / "file" / "data").locked():
        pass


def test_only_the_path_to_the_files_is_open_to_others(folder: DataFolder) -> None:
    with folder.locked():
        names = (".", "files", "files/artifacts", "logs")
        modes = {name: (folder.path / name).stat().st_mode & 0o777 for name in names}
    assert modes == {".": 0o711, "files": 0o711, "files/artifacts": 0o700, "logs": 0o700}


def test_secrets_are_created_once_and_kept(folder: DataFolder) -> None:
    with folder.locked():
        first = folder.secrets()
        assert folder.secrets() == first
        folder.save_secrets(first | {"demo": {"user": "demo"}})
        assert folder.secrets() == first | {"demo": {"user": "demo"}}


def test_a_secret_unknown_to_older_versions_is_added(folder: DataFolder) -> None:
    with folder.locked():
        old = {"secretKey": "old", "redisPassword": "old"}
        folder.save_secrets(old)
        stored = folder.secrets()
        assert stored == old | {"databasePassword": stored["databasePassword"]}
        assert folder.secrets() == stored


def test_two_folders_have_different_secrets(folder: DataFolder, tmp_path: Path) -> None:
    other = DataFolder(tmp_path / "other")
    with folder.locked(), other.locked():
        assert not set(folder.secrets().values()) & set(other.secrets().values())


def test_only_the_owner_can_read_secrets_and_environment(folder: DataFolder) -> None:
    with folder.locked():
        folder.secrets()
        folder.save_environment({"SECRET_KEY": "x"})
    private_files = [folder.path / "secrets.json", folder.path / "stack.env"]
    assert [file.stat().st_mode & 0o777 for file in private_files] == [0o600, 0o600]


def test_damaged_secrets_are_reported_in_a_sentence(folder: DataFolder) -> None:
    with folder.locked():
        (folder.path / "secrets.json").write_text("{")
        with pytest.raises(LocalStackError, match="damaged"):
            folder.secrets()


def test_a_shell_can_read_the_environment_file(folder: DataFolder) -> None:
    value = "a b'c\"$d"
    with folder.locked():
        folder.save_environment({"STRANGE": value})
    script = f'. "{folder.path}/stack.env"; printf %s "$STRANGE"'
    assert subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True).stdout == value


def test_a_long_log_is_rotated_at_the_next_start(folder: DataFolder) -> None:
    with folder.locked():
        log = folder.log("web")
        log.write_bytes(b"x" * (LOG_BYTES + 1))
        assert not folder.log("web").exists()
        assert log.with_suffix(".log.1").exists()
