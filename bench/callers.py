"""HTTP callers that submit jobs over persistent connections."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, RemoteDisconnected
from urllib.parse import urlsplit

PROFILE = 'mage="Ada"\nlevel=80\nrace=human\nspec=frost\nhead=,id=1,ilevel=680\niterations=100\n'
BODY = json.dumps({"build": {"channel": "latest"}, "profile": {"text": PROFILE}}).encode()


class Caller:
    """One caller with one connection; not thread-safe."""

    def __init__(self, url: str, key: str, *, body: bytes = BODY) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._body = body

    def submit(self) -> str:
        """Submit a job and return its id."""
        status, body = self._request("POST", "/v1/sim/jobs", self._body)
        assert status in (200, 201, 202), body
        return str(json.loads(body)["id"])

    def _request(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        """Make a request. If the server has closed the idle connection, repeat it on a new connection."""
        for is_last in (False, True):
            try:
                self._connection.request(method, path, body=body, headers=self._headers)
                response = self._connection.getresponse()
                return response.status, response.read()
            except (RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                self._connection.close()
                if is_last:
                    raise
        raise AssertionError

    def timed_submit(self) -> float:
        """Submit a job and return the duration of the request in seconds."""
        started = time.perf_counter()
        self.submit()
        return time.perf_counter() - started


def submit_until(
    url: str, keys: Sequence[str], *, stop: threading.Event, may_go: Callable[[], bool]
) -> list[float]:
    """Submit with one caller for each key until `stop`, pausing while `may_go` is false; return the durations."""

    def work(key: str) -> list[float]:
        caller, durations = Caller(url, key), []
        while not stop.is_set():
            if may_go():
                durations.append(caller.timed_submit())
            else:
                stop.wait(0.005)
        return durations

    with ThreadPoolExecutor(len(keys)) as pool:
        return [seconds for part in pool.map(work, keys) for seconds in part]


def submit_many(url: str, keys: Sequence[str], *, count: int) -> list[float]:
    """Submit `count` jobs with one caller for each key; return the durations of the requests."""

    def work(key: str) -> list[float]:
        caller = Caller(url, key)
        return [caller.timed_submit() for _ in range(count // len(keys))]

    with ThreadPoolExecutor(len(keys)) as pool:
        return [seconds for part in pool.map(work, keys) for seconds in part]
