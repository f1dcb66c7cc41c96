"""Fake simulators for tests of execution, and functions that run jobs on them."""

import gzip
import stat
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from django.core.files.storage import default_storage
from django.db import connection

from clients.models import Client
from jobs.execution import attempt
from jobs.lifecycle import job_moves
from jobs.management.commands.seedlocal import MINISIM, MINISIM_READS
from jobs.models import Artifact, Build, Job
from jobs.registry import prepare
from tests.factories import BuildFactory, make_job

# Also for the tests of shards and execution
from tests.waiting import wait_until as wait_until

REPORT = {
    "version": "1",
    "report_version": "2.0.0",
    "sim": {
        "options": {"iterations": 50},
        "players": [{"name": "A", "collected_data": {"dps": {"mean": 5, "mean_std_dev": 1}}}],
    },
}
# Code of fake simulators: one writes a valid report, one runs until it is interrupted.
LEAVE_REPORT = f"open('report.json', 'w').write(json.dumps({REPORT!r}))"
RUN_UNTIL_INTERRUPTED = f"""
def stop(*_):
    {LEAVE_REPORT}
    sys.exit(0)
signal.signal(signal.SIGINT, stop)
print("running", flush=True)
time.sleep(60)
"""


def make_stand_in(folder: Path, body: str) -> Build:
    """Register a build whose executable runs some lines of Python."""
    folder.chmod(0o755)
    script = folder / "simulator"
    script.write_text(f"#!{Path(sys.executable).resolve()}\nimport json, os, signal, sys, time\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXOTH | stat.S_IROTH)
    readable = [str(folder), sys.prefix, sys.base_prefix]
    return BuildFactory.create(executable=str(script), readable_paths=readable)


ODD_ENGINE = Path(__file__).parent / "engines" / "odd-simc.sh"


def make_odd_engine(folder: Path, *, changes: Mapping[str, str] | None = None) -> Build:
    """Register the stand-in that misbehaves as the actor's name says, perhaps with changes to its script."""
    folder.chmod(0o755)
    text = ODD_ENGINE.read_text()
    for old, new in (changes or {}).items():
        assert old in text
        text = text.replace(old, new)
    script = folder / "odd-simc"
    script.write_text(text)
    script.chmod(0o755)
    return BuildFactory.create(executable=str(script), readable_paths=[str(folder)], simc_version="1120-02")


# The built-in simulator, with each profileset's mean shifted by a random multiple of its error.
SHIFTED = """
import random, subprocess
status = subprocess.run([{executable!r}, *sys.argv[1:], 'seed={seed}']).returncode
if os.path.exists('report.json'):
    report = json.load(open('report.json'))
    for found in report['sim']['profilesets']['results']:
        draw = random.Random(str({seed}) + found['name'])
        found['mean'] += draw.gauss(0, {errors}) * found['mean_stddev']
    json.dump(report, open('report.json', 'w'))
sys.exit(status)
"""


def make_shifted_minisim(folder: Path, *, seed: int, errors: float) -> Build:
    """Register the built-in simulator with results that vary by more than their reported errors."""
    build = make_stand_in(folder, SHIFTED.format(executable=str(MINISIM), seed=seed, errors=errors))
    build.readable_paths = [*build.readable_paths, *map(str, MINISIM_READS)]
    build.save(update_fields=["readable_paths"])
    return build


def claim() -> Job:
    """Claim the waiting job."""
    job = job_moves.claim_job("worker-1")
    assert job is not None
    return job


def again() -> Job:
    """Run the next attempt of the waiting job, and return the job after its end."""
    job = claim()
    attempt.execute(job)
    return Job.objects.get(pk=job.pk)


def build_of(job: Job) -> Build | None:
    """Return the build that a job would run on now."""
    prepared = prepare(job)
    return prepared.build if prepared else None


def run(client: Client | None = None, **fields: Any) -> Job:
    """Submit, claim and execute one job; return the job after its end."""
    make_job(client, **fields)
    return again()


def run_with_action(action: Callable[[Job], object], **fields: Any) -> Job:
    """Execute one job; when its simulator runs, call `action` in another thread."""
    make_job(**fields)
    job = claim()

    def act() -> None:
        try:
            wait_until(lambda: Job.objects.get(pk=job.pk).status == "running")
            action(Job.objects.get(pk=job.pk))
        finally:
            connection.close()

    thread = threading.Thread(target=act)
    thread.start()
    attempt.execute(job)
    thread.join()
    return Job.objects.get(pk=job.pk)


def content(job: Job, kind: Artifact.Kind) -> bytes:
    """Return the content of one of a job's artifacts."""
    return read(Artifact.objects.get(job=job, kind=kind))


def contents(job: Job, kind: Artifact.Kind) -> list[str]:
    """Return the contents of a job's artifacts of one kind, in the order of its stages."""
    return [read(artifact).decode() for artifact in Artifact.objects.filter(job=job, kind=kind).order_by("stage")]


def read(artifact: Artifact) -> bytes:
    """Return an artifact's content."""
    with default_storage.open(artifact.storage_name) as stored:
        return gzip.decompress(stored.read())
