"""Storage of files on disk and in a bucket."""

import io
import os
from pathlib import Path

import pytest
from django.core.files.base import ContentFile

from simservice.storages import local
from simservice.storages.local import LocalStorage
from simservice.storages.s3 import BucketStorage


@pytest.fixture
def disk(tmp_path: Path) -> LocalStorage:
    return LocalStorage(location=str(tmp_path / "files"))


def test_a_saved_file_is_on_the_disk_with_its_folders(
    disk: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(local, "_sync_folder", synced.append)
    disk.save("a/b/one", ContentFile(b"1"))
    assert {str(folder.relative_to(tmp_path)) for folder in synced} == {"files/a/b", "files/a", "files", "."}
    synced.clear()
    disk.save("a/b/two", ContentFile(b"2"))
    assert synced == [tmp_path / "files/a/b"]


def test_a_file_is_on_the_disk_before_it_has_its_name(disk: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    there: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda _: there.append(disk.exists("a")))
    disk.save("a", ContentFile(b"1"))
    assert there[0] is False


def test_only_the_owner_can_read_a_file(disk: LocalStorage) -> None:
    disk.save("a/b/c", ContentFile(b"1"))
    modes = [Path(disk.path(name)).stat().st_mode & 0o777 for name in ("a", "a/b", "a/b/c")]
    assert modes == [0o700, 0o700, 0o600]


def test_nobody_else_can_open_a_file_while_it_is_written(disk: LocalStorage) -> None:
    class Observed(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            modes.add(Path(f"{disk.path('a')}.part").stat().st_mode & 0o777)
            return super().read(size)

    modes: set[int] = set()
    before = os.umask(0)
    try:
        disk.save_many({"a": Observed(b"1")})
    finally:
        os.umask(before)
    assert modes == {0o600}


def test_empty_folders_are_removed_and_others_stay(disk: LocalStorage, tmp_path: Path) -> None:
    for name in ("a/b/one", "a/c/two"):
        disk.save(name, ContentFile(b"1"))
    disk.delete("a/b/one")
    disk.delete("a/b/one")
    assert (disk.listdir("a"), disk.listdir("a/b")) == ((["c"], []), ([], []))
    disk.delete("a/c/two")
    assert list((tmp_path / "files").iterdir()) == []


def test_a_file_that_cannot_be_removed_does_not_keep_others(disk: LocalStorage) -> None:
    for name in ("a/one/within", "a/two"):
        disk.save(name, ContentFile(b"1"))
    with pytest.raises(OSError, match="not empty"):
        disk.delete_many(["a/one", "a/two"])
    assert disk.listdir("a") == (["one"], [])


@pytest.mark.parametrize(
    ("endpoint", "style"), [("", "auto"), ("http://minio:9000", "path")], ids=["Amazon", "another"]
)
def test_a_bucket_is_addressed_as_its_service_expects(endpoint: str, style: str) -> None:
    storage = BucketStorage(bucket="b", endpoint_url=endpoint, access_key_id="a", secret_access_key="s")
    assert storage.client_config.s3 == {"addressing_style": style}
    assert storage.connection.meta.client.meta.endpoint_url == endpoint or endpoint == ""


def test_an_object_has_no_content_encoding() -> None:
    stored = BucketStorage(bucket="b")._get_write_parameters("1-1-json_report.gz")
    assert stored == {"ContentType": "application/gzip"}


def test_explicit_keys_are_not_mixed_with_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ambient")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "ambient")
    storage = BucketStorage(bucket="b", access_key_id="a", secret_access_key="s")
    assert (storage.access_key, storage.security_token) == ("a", None)
    assert BucketStorage(bucket="b").access_key == "ambient"
