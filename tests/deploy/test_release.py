"""A release has its version, notes, files and tag, or nothing at all."""

import hashlib
import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings

from deploy import release

ROOT = Path(settings.BASE_DIR)
GIT = shutil.which("git") or "git"
CHANGELOG = "# Changelog\n\n## Unreleased\n\n### Added\n\n- A thing.\n\n## First version\n\n- All of it.\n"
pytestmark = pytest.mark.xdist_group("release")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with what a release reads and changes."""
    root = tmp_path / "repository"
    ignored = shutil.ignore_patterns("*.egg-info", "__pycache__", "build")
    shutil.copytree(ROOT / "sdk" / "python", root / "sdk" / "python", ignore=ignored)
    (root / "deploy").mkdir()
    for name in ("pyproject.toml", ".gitignore", "deploy/requirements.lock"):
        shutil.copy(ROOT / name, root / name)
    (root / "CHANGELOG.md").write_text(CHANGELOG)
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "config", "user.name", "Test")
    git(root, "config", "user.email", "test@example.org")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "Begin")
    return root


def git(root: Path, *arguments: str) -> str:
    return subprocess.run([GIT, *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def test_a_release_has_version_notes_files_and_tag(root: Path) -> None:
    release.release("1.2.3", root=root)
    assert 'version = "1.2.3"' in (root / "pyproject.toml").read_text()
    assert re.search(
        r"## Unreleased\n\n## 1\.2\.3 \(\d{4}-\d\d-\d\d\)\n\n### Added", (root / "CHANGELOG.md").read_text()
    )
    assert git(root, "tag", "--list", "--format=%(contents)").strip() == "### Added\n\n- A thing."
    assert git(root, "status", "--porcelain") == ""
    wheel = root / "dist" / "simservice_client-1.2.3-py3-none-any.whl"
    assert "simservice_client/py.typed" in zipfile.ZipFile(wheel).namelist()
    for line in (root / "dist" / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((root / "dist" / name).read_bytes()).hexdigest() == digest


def test_the_sbom_lists_the_packages_of_the_image(root: Path) -> None:
    release.write_sbom(root / "sbom.cdx.json", root=root)
    components = json.loads((root / "sbom.cdx.json").read_text())["components"]
    locked = re.findall(r"^([\w.-]+==\S+)", (root / "deploy" / "requirements.lock").read_text(), re.MULTILINE)
    assert {f"{each['name']}=={each['version']}" for each in components} == set(locked)


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.2", "not a version"),
        ("1.2.3; rm", "not a version"),
        ("0.0.1", "0.0.1 is older than 0.1.0"),
        ("1.0.0", "The tag v1.0.0 exists already."),
    ],
)
def test_wrong_versions_are_refused(root: Path, version: str, reason: str) -> None:
    git(root, "tag", "v1.0.0")
    with pytest.raises(release.Refused, match=reason):
        release.release(version, root=root)
    assert git(root, "status", "--porcelain") == ""


def test_uncommitted_changes_are_refused(root: Path) -> None:
    (root / "new").touch()
    with pytest.raises(release.Refused, match="uncommitted"):
        release.release("1.2.3", root=root)


def test_an_empty_changelog_is_refused(root: Path) -> None:
    (root / "CHANGELOG.md").write_text(CHANGELOG.replace("### Added\n\n- A thing.\n\n", ""))
    git(root, "commit", "--quiet", "--all", "--message", "Empty")
    with pytest.raises(release.Refused, match="no entries"):
        release.release("1.2.3", root=root)


def break_build(root: Path) -> None:
    (root / "sdk" / "python" / "pyproject.toml").write_text("broken")
    git(root, "commit", "--quiet", "--all", "--message", "Break")


def break_hook(root: Path) -> None:
    hook = root / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)


def break_tag(root: Path) -> None:
    git(root, "config", "tag.gpgSign", "true")
    git(root, "config", "gpg.program", "/bin/false")


@pytest.mark.parametrize(
    ("damage", "command"), [(break_build, "pip wheel"), (break_hook, "git commit"), (break_tag, "git tag")]
)
def test_a_failed_step_leaves_nothing_behind(root: Path, damage: Callable[[Path], None], command: str) -> None:
    damage(root)
    before = git(root, "rev-parse", "HEAD")
    with pytest.raises(release.Refused, match=command):
        release.release("1.2.3", root=root)
    assert git(root, "rev-parse", "HEAD") == before
    assert (git(root, "status", "--porcelain"), git(root, "tag")) == ("", "")
    assert not (root / "dist").exists()


def test_a_missing_version_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["release.py"])
    assert release.main() == 1
    assert "make release VERSION=1.2.3" in capsys.readouterr().err
