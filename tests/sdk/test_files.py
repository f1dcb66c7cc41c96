"""Files of downloads: their names, their size, and the ranges that complete them."""

from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from simservice_client import DownloadFailed
from simservice_client._files import PartFile, safe_name

CONTENT = b"0123456789"


def response(status: int = 200, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=named)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("report.json", "report.json"),
        ("2_report.html", "2_report.html"),
        ("../../etc/passwd", "etc-passwd"),
        ("/etc/passwd", "etc-passwd"),
        ("a\\b:c\0d\n", "a-b-c-d"),
        ("..", "artifact"),
        ("", "artifact"),
        ("ü" * 9, "artifact"),
        ("x" * 300, "x" * 100),
    ],
)
def test_names_from_the_service_stay_in_the_folder(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_the_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "folder" / "file"
    with PartFile(target, size=10) as part:
        part.begin(response(etag=f'"{sha256(CONTENT).hexdigest()}"'))
        part.write(CONTENT[:4])
        assert (part.is_complete, target.exists()) == (False, False)
        assert part.headers["Range"] == "bytes=4-"
        part.begin(response(206, content_range="bytes 4-9/10", etag=part.tag))
        part.write(CONTENT[4:])
        assert part.finish() == target
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]


def test_content_that_changed_in_between_starts_again(tmp_path: Path) -> None:
    with PartFile(tmp_path / "file", size=10) as part:
        part.begin(response(etag='"old"'))
        part.write(b"olds")
        part.begin(response(etag=f'"{sha256(CONTENT).hexdigest()}"'))
        part.write(CONTENT)
        assert part.finish().read_bytes() == CONTENT


@pytest.mark.parametrize("given", ["bytes 0-9/10", "bytes 5-9/10", "", "bytes */10"])
def test_another_range_than_the_missing_one_is_refused(tmp_path: Path, given: str) -> None:
    with PartFile(tmp_path / "file", size=10) as part:
        part.begin(response())
        part.write(CONTENT[:4])
        with pytest.raises(DownloadFailed, match="other bytes"):
            part.begin(response(206, content_range=given))
    assert list(tmp_path.iterdir()) == []


def test_more_bytes_than_announced_are_refused(tmp_path: Path) -> None:
    with PartFile(tmp_path / "file", size=5) as part:
        part.begin(response())
        with pytest.raises(DownloadFailed, match="more than 5 bytes"):
            part.write(CONTENT)
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_caller_leaves_no_file(tmp_path: Path) -> None:
    def interrupted() -> None:
        with PartFile(tmp_path / "file", size=5) as part:
            part.write(b"0")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_needs_no_request(tmp_path: Path) -> None:
    with PartFile(tmp_path / "file", size=0) as part:
        assert part.is_complete
        assert part.finish().read_bytes() == b""
