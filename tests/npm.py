"""Files of npm packages, downloaded once and verified by their hashes."""

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / ".venv"
SECONDS = 120


class Missing(Exception):
    """A file is not available; the message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class NpmFile:
    """A file of a package."""

    package: str
    version: str
    member: str
    sha256: str

    def path(self) -> Path:
        """Return the downloaded file. Raises Missing, or ValueError if its hash differs."""
        downloaded = FOLDER / f"{self.package}-{self.version}-{Path(self.member).name}"
        if not downloaded.exists():
            content = self.fetch()
            # Several tests can download at the same time.
            with tempfile.NamedTemporaryFile(dir=FOLDER, delete=False) as part:
                part.write(content)
            Path(part.name).replace(downloaded)
        return downloaded

    def fetch(self) -> bytes:
        """Fetch the file with npm. Raises Missing."""
        npm = shutil.which("npm")
        if npm is None:
            raise Missing(f"Install npm to fetch {self.package} (Debian and Ubuntu: apt-get install npm).")
        with tempfile.TemporaryDirectory() as folder:
            command = [npm, "pack", f"{self.package}@{self.version}", "--silent", "--pack-destination", folder]
            try:
                subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=SECONDS)
            except (subprocess.SubprocessError, OSError) as error:
                raise Missing(f"npm could not fetch {self.package}: {error}") from None
            return self.unpack(next(Path(folder).glob("*.tgz")))

    def unpack(self, packed: Path) -> bytes:
        """Return the file in npm's archive. Raises ValueError if its hash differs."""
        with tarfile.open(packed) as archive:
            member = archive.extractfile(f"package/{self.member}")
            content = member.read() if member else b""
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise ValueError(f"{self.package} {self.version} is not what it was.")
        return content
