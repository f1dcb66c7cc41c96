"""The service under faults: nothing is lost, runs or is paid twice, or is written late, and no secret is shown."""

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import connection

from jobs import artifacts, credentials
from jobs.models import Artifact, Job
from jobs.queueing import sweep
from simservice.redis.client import redis
from tests.billing.books import LONG
from tests.factories import BuildFactory, make_account, make_job, make_key
from tests.faults.invariants import choices, orphans, simulators_left, violations
from tests.faults.orchestra import Orchestra, Score, Seen, make_fast_stand_in
from tests.faults.redis_server import RedisServer
from tests.faults.requests import credentials_of
from tests.faults.secrets import Sampler, in_database, in_files, in_processes, in_redis, showing

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

JOBS = int(os.environ.get("FAULT_JOBS", "2000" if LONG else "16"))
SEED = int(os.environ.get("FAULT_SEED", "1"))


@dataclass(frozen=True, kw_only=True)
class Played:
    """A run that is over: what was seen of it, and the secrets that were part of it."""

    seen: Seen
    secrets: list[str]
    sampler: Sampler


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    """The Redis of a run, which this process uses too."""
    folder = tmp_path / "redis"
    folder.mkdir()
    server = RedisServer(folder)
    monkeypatch.setattr(settings, "REDIS_URL", server.url)
    redis.cache_clear()
    yield server
    redis().close()
    redis.cache_clear()
    server.stop()


def play(score: Score, folder: Path, server: RedisServer) -> Played:
    """Play a run with three accounts and one fast simulator."""
    script = make_fast_stand_in(folder)
    BuildFactory.create(executable=str(script), readable_paths=[str(folder)])
    keys = [make_key(make_account(max_active_jobs=100_000))[1] for _ in range(3)]
    pairs = [pair for number in range(score.jobs) if (pair := credentials_of(score.seed, number)) is not None]
    secrets = [*keys, *(pair.client_id for pair in pairs), *(pair.client_secret for pair in pairs)]
    sampler = Sampler(secrets)
    seen = Orchestra(score, folder, server=server, watch=sampler.look).play()
    assert simulators_left(script) == []
    return Played(seen=seen, secrets=secrets, sampler=sampler)


def shown(played: Played, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return where a secret of a run can be read, or is kept although nobody needs it any more."""
    monkeypatch.setattr(sweep, "SUBMITTED_WITHIN", timedelta(0))
    left = sweep.forget_credentials()
    print(  # noqa: T201 - the figures of the proof
        f"{len(played.secrets)} secrets, processes looked at {played.sampler.looks} times, "
        f"{left} encrypted pairs left by crashes, {len(credentials.kept())} after the sweep"
    )
    everywhere = [*places(folder)]
    kept = [f"the credentials of job {job_id} are kept" for job_id in credentials.kept()]
    return [*sorted(played.sampler.shown), *showing(played.secrets, everywhere), *kept]


def places(logs: Path) -> Iterator[tuple[str, bytes]]:
    """Yield all that a run leaves."""
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    yield from in_database(url)
    yield from in_redis(redis())
    yield from in_files(settings.DATA_DIR)
    yield from in_files(logs)
    yield from in_processes()


def report(seen: Seen) -> None:
    """Print the figures of a run."""
    retried = Job.objects.filter(attempt__gt=1).count()
    lost_for_good = Job.objects.filter(error_code="execution_interrupted").count()
    print(  # noqa: T201 - the figures of the proof
        f"seed {seen.score.seed}: {len(seen.accepted)} jobs in {seen.seconds:.0f} s, "
        f"{sum(seen.fired.values())} faults, cancels {dict(seen.cancels)}, refused {dict(seen.refused)}, "
        f"{retried} retried, {lost_for_good} lost three times, {len(orphans())} orphaned files, "
        f"{choices()} choices judged"
    )
    for (point, fault), count in sorted(seen.fired.items()):
        print(f"{count:5} {fault:9} {point}")  # noqa: T201


@pytest.mark.timeout(7200 if LONG else 120)
def test_nothing_is_lost_and_nothing_happens_twice_and_no_secret_is_shown(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = play(Score(jobs=JOBS, seed=SEED), tmp_path, server)
    report(played.seen)
    found = violations(played.seen)
    assert found == [], "\n".join(found)
    assert shown(played, tmp_path, monkeypatch) == []


def in_a_row(secret: str, folder: Path) -> None:
    make_job(metadata={"note": secret})


def in_a_key(secret: str, folder: Path) -> None:
    redis().rpush("log:1:1", f"said {secret}")


def in_a_log(secret: str, folder: Path) -> None:
    (folder / "worker-0.log").write_text(f"said {secret}\n")


def in_an_artifact(secret: str, folder: Path) -> None:
    artifacts.store(make_job(), Artifact.Kind.STDOUT_LOG, io.BytesIO(f"said {secret}".encode()))


@pytest.mark.parametrize("plant", [in_a_row, in_a_key, in_a_log, in_an_artifact])
def test_a_secret_that_is_kept_is_found(plant: Callable[[str, Path], None], tmp_path: Path) -> None:
    secret = uuid4().hex
    plant(secret, tmp_path)
    assert len(list(showing([secret], places(tmp_path)))) == 1


@pytest.mark.parametrize("where", ["argument", "environment"])
def test_a_secret_that_a_process_shows_is_found(where: str) -> None:
    secret = uuid4().hex
    argument, environment = (secret, {}) if where == "argument" else ("", {"NOTE": secret})
    process = subprocess.Popen([sys.executable, "-c", "input()", argument], stdin=subprocess.PIPE, env=environment)
    sampler = Sampler([secret])
    sampler.look()
    process.communicate(b"\n")
    assert len(sampler.shown) == 1


# Variants that lack one protection, with the faults it protects from and the words of the expected violations.
# Which worker is first is chance, so a violation that one run does not show may appear in the next.
TRIES = 3
BROKEN: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no fencing": (
        {"faults": ["pause"], "roles": ["worker"], "points": ["while it runs", "all artifacts stored"]},
        ["has a file of attempt"],
    ),
    "no lease": ({"faults": ["kill"], "roles": ["worker"], "points": ["simulator started"]}, ["is lost: it is"]),
    "announcement instead of claim": (
        {"faults": [], "workers": 2, "slots": 1},
        [" went from ", "was claimed before"],
    ),
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("variant", BROKEN)
def test_the_suite_notices_what_is_broken(variant: str, tmp_path: Path, server: RedisServer) -> None:
    chosen, told = BROKEN[variant]
    found: list[str] = []
    for seed in range(SEED, SEED + TRIES):
        score = Score(jobs=12, seed=seed, sweepers=1, variant=variant, lost_after_seconds=4, cancelled=0, **chosen)
        found += violations(play(score, tmp_path, server).seen)
        untold = [words for words in told if not any(words in violation for violation in found)]
        if not untold:
            return
    assert untold == [], found
