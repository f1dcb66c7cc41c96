"""Sharded jobs on fake simulators, and checks of their results."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.files.storage import default_storage
from django.db import connection

from clients.models import Client
from jobs.artifacts import artifact_files
from jobs.execution import attempt
from jobs.models import Artifact, Build, Job, Run, Shard, ShardedStage
from tests.factories import make_job
from tests.jobs.shards.helping_slots import helping
from tests.jobs.simulators import claim, make_stand_in, wait_until

NAMES = [f"set {number}" for number in range(1, 13)]
SETS = "".join(f'profileset."{name}"+=trinket1=stone,id=1,ilevel={600 + n}\n' for n, name in enumerate(NAMES))
# The means that the simulator reports
RESULTS = {name: 1005 + 5 * n for n, name in enumerate(NAMES)}
PROFILE = f'mage="A"\niterations=50\n{SETS}'
RATE = 32

# Reads the numbers of each profileset, and can report finished profilesets. Tests append the code that runs them.
SIMULATOR = r"""
import re
text = open('profile.simc').read().replace('"', '')
names = list(dict.fromkeys(re.findall(r'^profileset\.([^=+]+)', text, re.M)))
def number_of(option, name=None):
    own = re.findall(rf'^profileset\.{re.escape(name)}\+=\s*{option}=(\S+)', text, re.M) if name else []
    return float((own or re.findall(rf'^{option}=(\S+)', text, re.M) or [0])[-1])
counts = {name: int(number_of('iterations', name)) for name in names}
is_first = set(counts.values()) == {1}
done = []
def entry(name):
    mean, error = 1000 + 5 * int(name[4:].partition('~')[0]), number_of('target_error', name) or 1
    return {'name': name, 'mean': mean, 'mean_stddev': mean * error / 196, 'stddev': mean * error / 10,
            'min': 1, 'max': 2 * mean, 'iterations': counts[name]}
def report():
    dps = {'mean': 1000, 'mean_std_dev': 2, 'std_dev': 50, 'min': 1, 'max': 2000}
    sim = {'options': {'iterations': int(number_of('iterations'))},
           'players': [{'name': 'A', 'collected_data': {'dps': dps, 'fight_length': {'count': 9, 'mean': 300}}}],
           'profilesets': {'metric': 'Damage per Second', 'results': [entry(name) for name in done]},
           'statistics': {'elapsed_time_seconds': 1.5}}
    return {'version': '1', 'report_version': '2.0.0', 'sim': sim}
def leave(status=0, found=None):
    json.dump(found or report(), open('report.json', 'w'))
    sys.exit(status)
def fail(text):
    sys.exit(print(f'Error: {text}', file=sys.stderr) or 1)
signal.signal(signal.SIGINT, lambda *_: leave(1))
def run(seconds=0.0):
    for name in names:
        time.sleep(0 if is_first else seconds)
        done.append(name)
"""


def make_simulator(folder: Path, body: str = "", *, seconds: float = 0.0) -> Build:
    """Register a fake simulator that takes `seconds` for each profileset, or no time if all have one iteration.

    `body` runs before the simulation.
    """
    return make_stand_in(folder, f"{SIMULATOR}\n{body}\nrun({seconds})\nleave()")


def submit(client: Client | None = None, **fields: Any) -> Job:
    """Submit and claim a job that may use four slots."""
    make_job(client, **{"text": PROFILE, "parallel_slots": 4, **fields})
    return claim()


def conducted(client: Client | None = None, *, helpers: int = 0, **fields: Any) -> Job:
    """Run a job with some helping slots, and return it after its end."""
    job = submit(client, **fields)
    with helping(helpers):
        attempt.execute(job)
    return Job.objects.get(pk=job.pk)


@contextmanager
def meanwhile(action: Callable[[], object]) -> Iterator[None]:
    """Call an action in another thread during a block. Its error fails the test."""
    errors: list[BaseException] = []

    def act() -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert not errors, errors


def during(job: Job, action: Callable[[], object], *, helpers: int = 0) -> Job:
    """Run a claimed job, call an action meanwhile, and return the job after its end."""
    with helping(helpers), meanwhile(action):
        attempt.execute(job)
    return Job.objects.get(pk=job.pk)


def wait_for_shard(**fields: Any) -> Shard:
    """Wait until the run of a shard other than the first has started, and return the shard."""

    def found() -> Shard | None:
        running = Shard.objects.filter(status="running", number__gt=0, **fields).select_related("stage").first()
        started = Run.objects.filter(shard=running.number, try_number=running.try_number) if running else None
        return running if started and started.exists() else None

    wait_until(lambda: found() is not None)
    shard = found()
    assert shard is not None
    return shard


def results_of(job: Job) -> dict[str, float]:
    """Return the mean of each profileset."""
    assert job.summary is not None, job.status_reason
    return {row["name"]: row["mean"] for row in job.summary["mainActor"]["profilesets"]["results"]}


def assert_nothing_left(job: Job) -> None:
    """Assert that neither rows nor files of shards are left."""
    assert not ShardedStage.objects.exists()
    assert not Shard.objects.exists()
    folder = artifact_files.folder_of(job.pk)
    stored = default_storage.listdir(folder)[1] if default_storage.exists(folder) else []
    ours = {f"{folder}/{name}" for name in stored if name.startswith(f"{job.pk}-")}
    assert ours == set(Artifact.objects.filter(job=job).values_list("storage_name", flat=True))
