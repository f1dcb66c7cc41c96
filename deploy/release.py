"""Prepare a release: version, changelog, wheel of the library, SBOM and tag. `make release VERSION=1.2.3`."""

import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT = Path(__file__).resolve().parent.parent
VERSION_FILES = ("pyproject.toml", "sdk/python/src/simservice_client/_version.py")
VERSION_LINE = re.compile(r'^((?:__version__|version) = )"(\d+\.\d+\.\d+)"$', re.MULTILINE)
LOCKED = re.compile(r"^([\w.-]+)==(\S+)((?: \\\n    --hash=\S+)+)", re.MULTILINE)
UNRELEASED = re.compile(r"^## Unreleased\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
NEXT = """\
Released {version} on this machine. Publish it:
  git push origin HEAD v{version}
  docker build --file deploy/Dockerfile --tag simservice:{version} .
The files in dist/ belong to the release.
"""


class Refused(Exception):
    """A release that cannot be made; the message says why."""


def run(*command: str, root: Path) -> str:
    """Run a command and return its output. Raises Refused with its last lines if it fails."""
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"`{' '.join(command)}` failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def check(version: str, *, root: Path) -> str:
    """Return the changelog's text about the release. Raises Refused."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise Refused(f"{version!r} is not a version. Run: make release VERSION=1.2.3")
    if run("git", "status", "--porcelain", root=root):
        raise Refused("There are uncommitted changes.")
    if run("git", "tag", "--list", f"v{version}", root=root):
        raise Refused(f"The tag v{version} exists already.")
    if _numbers(version) < _numbers(current_version(root)):
        raise Refused(f"{version} is older than {current_version(root)}.")
    section = UNRELEASED.search((root / "CHANGELOG.md").read_text())
    if not (section and section[1].strip()):
        raise Refused("CHANGELOG.md has no entries below `## Unreleased`.")
    return section[1].strip()


def current_version(root: Path) -> str:
    """Return the version of the last release."""
    lines: list[tuple[str, str]] = VERSION_LINE.findall((root / VERSION_FILES[0]).read_text())
    return lines[0][1]


def write_version(version: str, *, root: Path) -> None:
    """Set the version of the service and the library, and date the changelog."""
    for name in VERSION_FILES:
        text = (root / name).read_text()
        (root / name).write_text(VERSION_LINE.sub(rf'\1"{version}"', text, count=1))
    heading = f"## Unreleased\n\n## {version} ({datetime.now(UTC):%Y-%m-%d})\n"
    changelog = root / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace("## Unreleased\n", heading, 1))


def build(root: Path) -> None:
    """Write the library's wheel, the SBOM of the image and their checksums to `dist`."""
    dist = root / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        # From a copy: the build folder of an earlier wheel could add files that are gone.
        ignored = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
        source = shutil.copytree(root / "sdk" / "python", Path(folder) / "source", ignore=ignored)
        # Built by the setuptools of requirements-dev.txt, not by the newest one.
        wheel = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", "dist", str(source)]
        run(sys.executable, "-m", "pip", *wheel, root=root)
    write_sbom(dist / "sbom.cdx.json", root=root)
    names = sorted(path.name for path in dist.iterdir())
    (dist / "SHA256SUMS").write_text(run("sha256sum", *names, root=dist))


def write_sbom(path: Path, *, root: Path) -> None:
    """Write the packages of the image, with their hashes, as CycloneDX."""
    lock = (root / "deploy" / "requirements.lock").read_text()
    bom = Bom(components=[_component(*entry) for entry in LOCKED.findall(lock)])
    bom.metadata.component = Component(
        name="simservice", version=current_version(root), type=ComponentType.CONTAINER
    )
    bom.register_dependency(bom.metadata.component, bom.components)
    path.write_text(JsonV1Dot6(bom).output_as_string(indent=2))


def _component(name: str, version: str, hashes: str) -> Component:
    purl = PackageURL("pypi", name=name, version=version)
    digests = [HashType(alg=HashAlgorithm.SHA_256, content=each) for each in re.findall(r"sha256:(\w+)", hashes)]
    wheels = ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(str(purl)), hashes=digests)
    return Component(name=name, version=version, purl=purl, bom_ref=str(purl), external_references=[wheels])


def release(version: str, *, root: Path) -> None:
    """Commit, build and tag a release. If a step fails, nothing is left behind. Raises Refused."""
    notes = check(version, root=root)
    before = run("git", "rev-parse", "HEAD", root=root).strip()
    try:
        write_version(version, root=root)
        build(root)
        run("git", "commit", "--quiet", "--all", "--message", f"Release {version}", root=root)
        run("git", "tag", "--annotate", f"v{version}", "--cleanup=verbatim", "--message", notes, root=root)
    except BaseException:
        # There were no other uncommitted changes.
        run("git", "reset", "--quiet", "--hard", before, root=root)
        shutil.rmtree(root / "dist", ignore_errors=True)
        raise


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def main() -> int:
    """Make the release of the command line's version."""
    version = " ".join(sys.argv[1:])
    try:
        release(version, root=ROOT)
    except Refused as reason:
        print(reason, file=sys.stderr)
        return 1
    print(NEXT.format(version=version), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
