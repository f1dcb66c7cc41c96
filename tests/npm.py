"""Packages from npm, downloaded once and verified by their hashes."""

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / ".venv"
SECONDS = 300
INSTALL_HINT = "Install it (Debian and Ubuntu: apt-get install npm)."


class Missing(Exception):
    """A package is not available; the message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package without dependencies. `sha256` is the hash of its archive."""

    name: str
    version: str
    sha256: str

    def folder(self) -> Path:
        """Return the folder with the unpacked package. Raises Missing."""
        folder = FOLDER / f"npm-{self.name}-{self.version}"
        if not folder.exists():
            self._download(folder)
        return folder / "package"

    def _download(self, folder: Path) -> None:
        """Unpack the package into a folder, which appears when it is complete. Raises Missing."""
        npm = shutil.which("npm")
        if npm is None:
            raise Missing(f"There is no npm to fetch {self.name}. {INSTALL_HINT}")
        with tempfile.TemporaryDirectory(dir=FOLDER) as temporary:
            command = [npm, "pack", f"{self.name}@{self.version}", "--silent", "--pack-destination", temporary]
            try:
                subprocess.run(command, cwd=temporary, check=True, capture_output=True, timeout=SECONDS)
            except (subprocess.SubprocessError, OSError) as error:
                raise Missing(f"npm could not fetch {self.name}: {error}") from None
            unpacked = Path(temporary) / "unpacked"
            self._unpack(next(Path(temporary).glob("*.tgz")), unpacked)
            try:
                unpacked.rename(folder)
            except OSError:
                # Another test was faster.
                if not folder.exists():
                    raise

    def _unpack(self, archive: Path, folder: Path) -> None:
        """Unpack an archive. Raises ValueError if its hash differs."""
        if hashlib.sha256(archive.read_bytes()).hexdigest() != self.sha256:
            raise ValueError(f"{self.name} {self.version} is not what it was.")
        with tarfile.open(archive) as opened:
            # Filters exist since Python 3.11.4. The hash says that this is the chosen archive.
            opened.extractall(folder)  # noqa: S202
