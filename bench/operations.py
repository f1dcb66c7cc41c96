"""The operations that are measured while the database grows. Needs Django."""

import json
import time
from collections.abc import Callable

from django.db import transaction
from django.test import Client as HttpClient

from bench import holds
from bench.callers import BODY
from bench.moves import make_build, outcome
from bench.population import Caller
from billing import ledger
from jobs.execution import attempt
from jobs.lifecycle import job_moves
from jobs.models import Build, Job
from jobs.queue import forecast, sweep
from webhooks import claims as webhook_claims
from webhooks import dispatcher

HELD_CREDITS = 3_200
ROOM = 48
NAMES = ("submit", "claim", "finish", "list", "status", "sweep", "forecast", "webhook claim")


class Operations:
    """Operations of one account; `measure` returns their durations in seconds."""

    def __init__(self, caller: Caller) -> None:
        self._http = HttpClient(SERVER_NAME="localhost", headers={"Authorization": f"Bearer {caller.key}"})
        self._caller = caller
        self._build: Build = Build.objects.first() or make_build()
        self._claimed: list[Job] = []

    def measure(self, *, times: int, rare_times: int) -> dict[str, list[float]]:
        """Return the durations of each operation; the periodic ones are repeated `rare_times`."""
        durations = {
            "submit": _timed(self._submit, times),
            "claim": _timed(self._claim, times),
            "finish": self._finishes(),
            "list": _timed(lambda: self._get("jobs"), times),
            "status": _timed(lambda: self._get(f"jobs/{self._caller.waiting_id}/status"), times),
            "sweep": _timed(sweep.sweep, rare_times),
            "forecast": _timed(forecast.publish, rare_times),
            "webhook claim": _timed(_claim_events, rare_times),
        }
        assert tuple(durations) == NAMES
        return durations

    def claims(self, times: int) -> list[float]:
        """Return the durations of claims alone."""
        return _timed(self._claim, times)

    def _submit(self) -> None:
        response = self._http.post("/v1/sim/jobs", BODY, content_type="application/json")
        assert response.status_code < 300, response.content
        json.loads(response.content)

    def _get(self, path: str) -> None:
        response = self._http.get(f"/v1/sim/{path}")
        assert response.status_code == 200, response.content

    def _claim(self) -> None:
        job = job_moves.claim_job("bench:1")
        assert job is not None
        self._claimed.append(job)

    def _finishes(self) -> list[float]:
        """Create holds for the claimed jobs, then end the jobs."""
        for job in self._claimed:
            ledger.correct(job.account, HELD_CREDITS, reason="bench")
            holds.hold(job.account, HELD_CREDITS, job_id=job.pk)
            assert job_moves.start_run(job, build=self._build) is not None
        waiting = iter(self._claimed)
        durations = _timed(lambda: attempt.conclude(next(waiting), outcome(), []), len(self._claimed))
        self._claimed.clear()
        return durations


def _claim_events() -> None:
    """Claim due webhook events, then roll back the claim."""
    with transaction.atomic():
        assert webhook_claims.claim_deliveries(dispatcher.pools()[0], room=ROOM)
        transaction.set_rollback(True)


def _timed(call: Callable[[], object], times: int) -> list[float]:
    """Return the durations of calls, without the first call if there are several."""
    durations = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        durations.append(time.perf_counter() - started)
    return durations[times > 1 :]
