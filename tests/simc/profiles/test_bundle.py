"""Files of a build's bundle: which ones are read, and the names under which they are found."""

import os
from pathlib import Path

import pytest

from simc.profiles import bundle
from simc.profiles.bundle import Bundle, TooManyFiles, UnknownInclude, UnusableFile
from tests.jobs.bundles import FILES, write


def reason(folder: Path, name: str) -> str:
    """Return why a scan does not list a file."""
    usable, unusable = bundle.scan(folder)
    assert name not in usable
    return unusable[name]


def unread(folder: Path, name: str) -> str:
    """Return why a file cannot be read."""
    with pytest.raises(UnusableFile) as caught:
        bundle.read(folder, name)
    return str(caught.value)


def test_all_files_below_the_folder_are_found(tmp_path: Path) -> None:
    write(tmp_path, {**FILES, "notes.txt": "", "dir.simc/inner.simc": ""})
    assert bundle.scan(tmp_path) == (sorted([*FILES, "dir.simc/inner.simc"]), {})


def test_a_file_of_2_gb_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.simc").open("wb") as file:
        file.truncate(2 << 30)
    expected = "it has 2,147,483,648 bytes; the limit is 2,097,152"
    assert (reason(tmp_path, "huge.simc"), unread(tmp_path, "huge.simc")) == (expected, expected)


def test_links_are_not_followed(tmp_path: Path) -> None:
    folder, outside = write(tmp_path / "bundle", {"a.simc": ""}), write(tmp_path / "outside", {"b.simc": "secret"})
    (folder / "file.simc").symlink_to(outside / "b.simc")
    (folder / "inside.simc").symlink_to("a.simc")
    (folder / "folder").symlink_to(outside)
    for name in ("file.simc", "inside.simc", "folder"):
        assert reason(folder, name) == bundle.LINK
    for name in ("file.simc", "inside.simc", "folder/b.simc"):
        assert unread(folder, name).startswith("it cannot be read: ")


def test_a_link_within_the_path_is_not_followed(tmp_path: Path) -> None:
    folder = write(tmp_path / "bundle", {"a/b/c.simc": ""})
    (folder / "a").rename(tmp_path / "moved")
    (folder / "a").symlink_to(tmp_path / "moved")
    assert unread(folder, "a/b/c.simc") == "it cannot be read: Not a directory"


def test_a_pipe_and_a_device_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.simc")
    assert reason(tmp_path, "pipe.simc") == bundle.NOT_REGULAR
    assert unread(tmp_path, "pipe.simc") == bundle.NOT_REGULAR
    assert unread(Path("/dev"), "null") == bundle.NOT_REGULAR


def test_a_file_that_grows_is_read_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.simc").write_text("x" * 100)
    monkeypatch.setattr(bundle, "_file_problem", lambda _: None)
    monkeypatch.setattr(bundle, "MAX_FILE_BYTES", 10)
    assert unread(tmp_path, "a.simc") == "it has more than 10 bytes"


def test_a_file_that_cannot_be_read_is_named(open_directory: Path) -> None:
    closed = write(open_directory, {"closed.simc": "", "folder/a.simc": ""})
    (closed / "closed.simc").chmod(0)
    (closed / "folder").chmod(0)
    try:
        os.seteuid(65534 if os.geteuid() == 0 else os.geteuid())
        assert unread(closed, "closed.simc") == "it cannot be read: Permission denied"
        assert reason(closed, "folder") == "it cannot be read: Permission denied"
    finally:
        os.seteuid(os.getuid())
        (closed / "folder").chmod(0o755)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"a\nb.simc", "a\\nb.simc"),
        (b"a\x1b[0m.simc", "a\\x1b[0m.simc"),
        (b"\xff.simc", "\\udcff.simc"),
        (b'a"b.simc', 'a"b.simc'),
        (b"$(x).simc", "$(x).simc"),
        ("\u202ecmis.simc".encode(), "\\u202ecmis.simc"),
    ],
)
def test_a_file_that_no_profile_can_name_is_not_listed(tmp_path: Path, name: bytes, shown: str) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).touch()
    assert bundle.scan(tmp_path) == ([], {shown: bundle.BAD_NAME})


def test_binary_content_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "a.simc").write_bytes(b"level=80\0")
    assert unread(tmp_path, "a.simc") == bundle.NOT_TEXT


def test_the_number_of_files_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_FILES", 3)
    write(tmp_path, {f"{number}.simc": "" for number in range(3)})
    assert len(bundle.scan(tmp_path)[0]) == 3
    write(tmp_path, {"x/4.simc": ""})
    with pytest.raises(TooManyFiles, match="more than 3 files"):
        bundle.scan(tmp_path)


PATHS = ["top.simc", "apls/mage.simc", "generators/T1/one.simc", "x/two.simc", "y/two.simc", "y/top.simc"]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("apls/mage.simc", "apls/mage.simc"),
        ("mage.simc", "apls/mage.simc"),
        ("./apls/mage.simc", "apls/mage.simc"),
        ("profiles/apls/mage.simc", "apls/mage.simc"),
        ("bundle/apls/mage.simc", "apls/mage.simc"),
        ("T1/one.simc", "generators/T1/one.simc"),
        ("top.simc", "top.simc"),
        ("y/two.simc", "y/two.simc"),
    ],
)
def test_a_file_is_found_by_path_and_by_name(name: str, path: str) -> None:
    assert Bundle(Path("/somewhere/bundle"), PATHS).find(name) == path


@pytest.mark.parametrize("name", ["", "-", "..", "two.simc", "../top.simc", "/top.simc", "1/one.simc", "e.simc"])
def test_no_other_name_matches_a_file(name: str) -> None:
    with pytest.raises(UnknownInclude):
        Bundle(Path("/somewhere/bundle"), PATHS).find(name)


def test_all_names_that_submission_accepts_match_a_file() -> None:
    names = set(bundle.names(PATHS))
    assert names == {*PATHS, "mage.simc", "one.simc"}
    assert all(Bundle(Path("/b"), PATHS).find(name) for name in names)
