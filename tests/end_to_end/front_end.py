"""A client as a self-hosted front end has it: chunks of profilesets, submitted, polled and read over a bad network.

Written from the documents of the API alone. A front end keeps its chunks with their idempotency keys, and nothing
else, so a restarted one submits all of them again.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import requests

CHARACTER = 'mage="Raider"\nlevel=80\nspec=frost\nitems=head=,id=100,ilevel=600\n'
TERMINAL = {"completed", "failed", "cancelled", "timed_out"}
MAX_RUNTIME_SECONDS = 1800
# As many requests at a time as a browser makes.
CONNECTIONS = 6
POLL_SECONDS = 1.0
# Before a request is repeated after a lost answer, and after one without `Retry-After`, such as for missing credits
LOST_SECONDS, PAUSE_SECONDS = 0.5, 3.0


class Crash(Exception):
    """The front end ends in the middle of its work."""


@dataclass(frozen=True)
class Chunk:
    """Some combinations of items, and the key that makes their submission unique."""

    key: str
    names: tuple[str, ...]

    def profile(self) -> str:
        """Return the character and its combinations as the text of a profile."""
        lines = [f'profileset."{name}"+=head=,id={100 + number},ilevel=600' for number, name in self.numbered()]
        return "\n".join([CHARACTER.rstrip(), "iterations=1500", *lines, ""])

    def numbered(self) -> Iterator[tuple[int, str]]:
        return ((int(name.removeprefix("Combo ")), name) for name in self.names)


def make_chunks(count: int, *, size: int, prefix: str) -> list[Chunk]:
    """Return chunks of consecutive combinations."""
    starts = range(1, count * size + 1, size)
    return [
        Chunk(f"{prefix}-{start}", tuple(f"Combo {number}" for number in range(start, start + size)))
        for start in starts
    ]


@dataclass
class FrontEnd:
    """A front end with the address and key of a service. `answers` counts the errors it met by status."""

    url: str
    api_key: str
    answers: Counter[int] = field(default_factory=Counter)
    # Chunks that were answered with an earlier response, and lost answers
    replayed: int = 0
    lost: int = 0
    log_lines: int = 0
    # The most unfinished jobs that an accepted submission reported
    most_active: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def submit_all(self, chunks: Sequence[Chunk], *, crash_after: int | None = None) -> dict[str, str]:
        """Submit chunks, several at a time, and return their job ids by key.

        Raises Crash after some of them, and forgets what it knows.
        """
        sent = chunks[:crash_after]
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            job_ids = list(pool.map(self.submit, sent))
        if crash_after is not None:
            raise Crash
        return {chunk.key: job_id for chunk, job_id in zip(sent, job_ids, strict=True)}

    def submit(self, chunk: Chunk) -> str:
        """Submit a chunk until it is accepted, and return its job id."""
        body = {
            "build": {"channel": "latest"},
            "profile": {"text": chunk.profile()},
            "runtime": {"multiStage": True, "maxRuntimeSeconds": MAX_RUNTIME_SECONDS},
            "metadata": {"chunk": chunk.key},
        }
        response = self.call("POST", "jobs", json=body, headers={"Idempotency-Key": chunk.key})
        with self.lock:
            self.replayed += response.headers.get("X-Idempotent-Replay") == "true"
            self.most_active = max(self.most_active, int(response.headers["X-Active-Jobs"]))
        return str(response.json()["id"])

    def wait_for(self, job_ids: Sequence[str], *, seconds: float) -> dict[str, str]:
        """Poll jobs with their logs until all have ended, and return their statuses."""
        ended: dict[str, str] = {}
        deadline = time.monotonic() + seconds
        while waiting := [job_id for job_id in job_ids if job_id not in ended]:
            assert time.monotonic() < deadline, f"{len(waiting)} jobs have not ended after {seconds} s"
            with ThreadPoolExecutor(CONNECTIONS) as pool:
                polled = dict(zip(waiting, pool.map(self.status, waiting), strict=True))
            ended |= {job_id: status for job_id, status in polled.items() if status in TERMINAL}
            time.sleep(POLL_SECONDS)
        return ended

    def status(self, job_id: str) -> str:
        """Return the status of a job, and count the lines of its log."""
        body = self.call("GET", f"jobs/{job_id}/status?include=logEntries").json()
        with self.lock:
            self.log_lines += len(body["logEntries"] or [])
        return str(body["status"])

    def cancel(self, job_id: str) -> None:
        assert self.call("POST", f"jobs/{job_id}/cancel").json()["success"] is True

    def result(self, job_id: str) -> dict[str, Any]:
        """Return a job with its result."""
        body: dict[str, Any] = self.call("GET", f"jobs/{job_id}/result").json()
        return body

    def report(self, job_id: str) -> dict[str, Any]:
        """Download the first JSON report of a job, without a key."""
        artifacts = self.result(job_id)["result"]["artifacts"]
        url = next(artifact["url"] for artifact in artifacts if artifact["kind"] == "json_report")
        report: dict[str, Any] = self.repeat("GET", url).json()
        return report

    def credits(self) -> int:
        """Return the credits of the account, with the reserved ones."""
        body = self.call("GET", "credits").json()
        return int(body["purchased"] + body["reserved"] + sum(grant["remaining"] for grant in body["grants"]))

    def call(self, method: str, path: str, *, headers: dict[str, str] | None = None, **kwargs: Any) -> Any:
        """Call the API with the key."""
        sent = {"Authorization": f"Bearer {self.api_key}", **(headers or {})}
        return self.repeat(method, f"{self.url}/v1/simc/{path}", headers=sent, **kwargs)

    def repeat(self, method: str, url: str, **kwargs: Any) -> requests.Response:
        """Send a request until it succeeds: after a lost answer, and after an error that can pass."""
        while True:
            try:
                response = requests.request(method, url, timeout=20, **kwargs)
            except requests.RequestException:
                with self.lock:
                    self.lost += 1
                time.sleep(LOST_SECONDS)
                continue
            if response.status_code < 400:
                return response
            with self.lock:
                self.answers[response.status_code] += 1
            assert response.status_code in (402, 429) or response.status_code >= 500, response.text
            time.sleep(float(response.headers.get("Retry-After", PAUSE_SECONDS)))
