"""The demo: submit a job over the HTTP API, show its progress and print its result."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import requests

from localstack.console import print_output
from localstack.stack import CHECKOUT, Stack, local_http

PROFILE = CHECKOUT / "minisim" / "profiles" / "frost_mage_gear.simc"
BUILT_IN = "minisim "
"""The beginning of the built-in simulator's version."""
TERMINAL = {"completed", "failed", "cancelled", "timed_out"}
POLL_SECONDS = 0.5
LINE_SECONDS = 2.0
"""Minimum time between two lines of progress if stdout is not a terminal."""
REQUEST_SECONDS = 30.0
PATIENCE_SECONDS = 20.0
"""How long to retry while the web server restarts."""
MAX_PROFILESETS = 5


def show(stack: Stack) -> bool:
    """Submit a job, show its progress and its result. Return False if it did not complete.

    Its profile is made for the built-in simulator. If another build is newer, no job is submitted.
    """
    api = Api(url=stack.url, key=stack.api_key, wait=stack.supervisor.watch)
    try:
        version = api.latest_version()
        if not version.startswith(BUILT_IN):
            print_output(
                f"The newest build is SimulationCraft {version}. No demo job was submitted, because the demo's "
                "profile works only with the built-in simulator."
            )
            print_output("\n".join(["", *_access_lines(stack)]))
            return True
        job_id = api.submit(PROFILE.read_text())
        print_output(f"Submitted {PROFILE.name} as job {job_id}.")
        display = Display()
        for status in api.follow(job_id):
            display.update(_progress_text(status))
        display.finish()
        result = api.get(f"/{job_id}/result")
    except (requests.RequestException, OSError) as error:
        print_output(f"The demo failed: {error}")
        return False
    print_output("\n".join([*_result_lines(result), "", *_address_lines(stack, api, job_id)]))
    return bool(result["status"] == "completed")


@dataclass(frozen=True, kw_only=True)
class Api:
    """A client of the jobs endpoints. Raises requests.RequestException if a request fails."""

    url: str
    key: str
    wait: Callable[[float], object]
    http: requests.Session = field(default_factory=local_http)

    @property
    def base(self) -> str:
        return f"{self.url}/v1/{os.environ.get('API_RESOURCE') or 'sim'}"

    @property
    def jobs(self) -> str:
        return f"{self.base}/jobs"

    def latest_version(self) -> str:
        """Return the version of the build that the demo job would run on, that of the default branch."""
        builds = self._call("GET", f"{self.base}/builds")["builds"]
        return next((str(build["simcVersion"]) for build in builds if build["channel"] == "latest"), BUILT_IN)

    def submit(self, profile: str) -> str:
        body = {"build": {"channel": "latest"}, "profile": {"text": profile}, "artifacts": {"html": True}}
        return str(self._call("POST", self.jobs, json=body)["id"])

    def get(self, path: str) -> dict[str, Any]:
        """Send a GET request. Retry for PATIENCE_SECONDS while the connection is refused."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._call("GET", self.jobs + path)
            except requests.ConnectionError:
                if time.monotonic() > deadline:
                    raise
            self.wait(POLL_SECONDS)

    def follow(self, job_id: str) -> Iterator[dict[str, Any]]:
        """Yield the job's status until it is terminal."""
        while True:
            status = self.get(f"/{job_id}/status")
            yield status
            if status["status"] in TERMINAL:
                return
            self.wait(POLL_SECONDS)

    def _call(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.key}"}
        response = self.http.request(method, url, headers=headers, timeout=REQUEST_SECONDS, **options)
        if not response.ok:
            raise requests.HTTPError(f"{method} {url} returned {response.status_code}: {response.text[:500]}")
        body: dict[str, Any] = response.json()
        return body


@dataclass
class Display:
    """Progress: one line that is updated on a terminal, otherwise a new line every LINE_SECONDS."""

    _text: str = ""
    _shown_at: float = field(default=-LINE_SECONDS)
    _in_place: bool = field(default_factory=lambda: sys.stdout.isatty())

    def update(self, text: str) -> None:
        if text == self._text:
            return
        if self._in_place:
            width = shutil.get_terminal_size().columns - 1
            print_output(f"\r{text[:width]:{width}}", end="")
        elif time.monotonic() - self._shown_at >= LINE_SECONDS:
            self._shown_at = time.monotonic()
            print_output(text)
        self._text = text

    def finish(self) -> None:
        if self._in_place:
            print_output("")


def _progress_text(status: dict[str, Any]) -> str:
    """Return a line like `running   [#####-----]  51 %  initial`."""
    state, progress, queue = status["status"], status.get("progress"), status.get("queue")
    if queue is not None:
        seconds = queue.get("estimatedStartSeconds")
        return f"{state:9} starts in about {seconds:.0f} s" if seconds else f"{state:9} waiting for a worker"
    if not progress:
        return str(state)
    stage = progress.get("stage") or {}
    percent = progress.get("percent") or 0
    width = max(10, min(40, shutil.get_terminal_size().columns - 35))
    done = round(width * percent / 100)
    return f"{state:9} [{'#' * done}{'-' * (width - done)}] {percent:3.0f} %  {stage.get('label', '')}"


def _result_lines(result: dict[str, Any]) -> list[str]:
    lines = ["", f"Status     {result['status']}"]
    if result.get("statusReason"):
        lines.append(f"Reason     {result['statusReason']}")
    actor = ((result["result"] or {}).get("summary") or {}).get("mainActor")
    if actor:
        lines.append(f"Actor      {actor['name']}")
        lines.append(f"DPS        {actor['mean']:,.0f} ± {actor['mean_error']:,.0f}")
        lines.extend(_best_lines(actor))
    return lines


def _best_lines(actor: dict[str, Any]) -> list[str]:
    """Return a line for each of the best profilesets, with its difference from the actor's own gear."""
    best = (actor.get("profilesets") or {}).get("results", [])[:MAX_PROFILESETS]
    return [
        f"{'Best sets' if number == 0 else '':10} {each['mean']:,.0f} ± {each['mean_error']:,.0f}"
        f"  {100 * (each['mean'] / actor['mean'] - 1):+.2f} %  {each['name']}"
        for number, each in enumerate(best)
    ]


def _address_lines(stack: Stack, api: Api, job_id: str) -> list[str]:
    share = api.get(f"/{job_id}")["links"]["share"]
    return [
        f"Share page {share}",
        *_access_lines(stack),
        f"Try        curl -H 'Authorization: Bearer {stack.api_key}' {api.jobs}/{job_id}/result",
        f"simctl     .venv/bin/simctl login --url {stack.url}",
        f"           .venv/bin/simctl run {PROFILE.relative_to(CHECKOUT)}",
        "",
    ]


def _access_lines(stack: Stack) -> list[str]:
    return [
        f"Dashboard  {stack.url}/dashboard/",
        f"Admin      {stack.url}/admin/",
        f"Login      {stack.user} / {stack.password}",
        f"API key    {stack.api_key}",
    ]
