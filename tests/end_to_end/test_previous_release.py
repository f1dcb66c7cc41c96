"""The previous release and this version work with each other's schema, before, between and after the migrations."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.end_to_end.rolling_upgrade import Version, extract, servers
from tests.stack import ROOT, ApiClient

pytestmark = pytest.mark.timeout(240)
# This commit can be a release itself.
BEFORE = "HEAD^"
RELEASED = re.compile(r"^## \d.+$", re.MULTILINE)
# Edited only until the first release
INITIAL_MIGRATIONS = [":(glob)*/migrations/000[12]_*.py"]


def git(*arguments: str) -> str:
    """Return the output of a command of git; nothing if it fails."""
    command = [shutil.which("git") or "git", *arguments]
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    return ""


def previous_release() -> str:
    """Return the last release before this commit: its tag, or the commit that added its heading.

    Before the first release, return the last commit that changed an initial migration.
    """
    if tag := git("describe", "--tags", "--abbrev=0", BEFORE):
        return tag
    version = RELEASED.search(git("show", f"{BEFORE}:CHANGELOG.md"))
    if not version:
        return git("log", "-1", "--format=%H", "--", *INITIAL_MIGRATIONS)
    if git("rev-parse", "--is-shallow-repository") != "false":
        return ""
    commits = git("log", "--format=%H", "--reverse", f"-S{version[0]}", BEFORE, "--", "CHANGELOG.md").split()
    return commits[0] if commits else ""


class Release:
    """The previous release and this version, on one database."""

    def __init__(self, old: Version, new: Version) -> None:
        self.old, self.new, self.key = old, new, ""

    def smoke(self, version: Version) -> None:
        """Start a version, run a job and read its result, and stop it."""
        version.start()
        try:
            client = ApiClient({"url": f"http://127.0.0.1:{version.port}", "apiKey": self.key})
            job_id = client.submit()
            assert client.wait_for_end(job_id)["status"] == "completed"
            assert client.report(job_id)["sim"]["players"]
        finally:
            version.supervisor.stop()


@pytest.fixture
def release(tmp_path: Path) -> Iterator[Release]:
    commit = previous_release()
    if not commit:
        end = pytest.fail if os.environ.get("CI") else pytest.skip
        end("the previous release is not in the history of this clone: fetch all commits and tags")
    with ExitStack() as ending:
        # Simulators run as other users, which must be able to read the folder.
        for folder in (tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o755)
        extract(commit, tmp_path / "old")
        settings = ending.enter_context(servers(tmp_path))
        old = Version("old", tmp_path / "old", tmp_path / "old" / ".venv" / "bin", settings, tmp_path)
        new = Version("new", ROOT, Path(sys.executable).parent, settings, tmp_path)
        yield Release(old, new)


def test_both_versions_work_around_the_migrations(release: Release) -> None:
    old, new = release.old, release.new
    old.manage("migrate", "--noinput")
    release.key = json.loads(old.manage("seedlocal", text="{}").splitlines()[-1])["apiKey"]
    new.manage("migrate", "--expand", "--noinput")
    release.smoke(old)
    release.smoke(new)
    new.manage("migrate", "--noinput")
    release.smoke(new)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository in place of this one."""
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Jane")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "jane@example.org")
    git("init", "--quiet")
    return tmp_path


def commit(repository: Path, changelog: str) -> str:
    """Commit all files with a new changelog, and return the commit."""
    (repository / "CHANGELOG.md").write_text(changelog)
    git("add", ".")
    git("commit", "--quiet", "--message", "Change")
    return git("rev-parse", "HEAD")


@pytest.mark.parametrize("is_tagged", [True, False], ids=["tagged", "untagged"])
def test_a_release_is_compared_with_the_one_before(repository: Path, *, is_tagged: bool) -> None:
    first = commit(repository, "## Unreleased\n\n## 1.0.0\n")
    if is_tagged:
        git("tag", "1.0.0")
    commit(repository, "## Unreleased\n\n## 1.1.0\n\n## 1.0.0\n")
    assert previous_release() == ("1.0.0" if is_tagged else first)


def test_before_a_release_the_initial_migrations_count(repository: Path) -> None:
    migrations = repository / "app" / "migrations"
    migrations.mkdir(parents=True)
    (migrations / "0001_initial.py").touch()
    first = commit(repository, "## Unreleased\n")
    commit(repository, "## Unreleased\n\n- A change.\n")
    assert previous_release() == first
