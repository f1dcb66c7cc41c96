"""HTTP callers with persistent connections."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, RemoteDisconnected
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

# One iteration: the simulator that sleeps then ends at once.
PROFILE = 'mage="Ada"\nlevel=80\nrace=human\nspec=frost\nhead=,id=1,ilevel=680\niterations=1\n'
JOBS = "/v1/sim/jobs"


def submission(text: str = PROFILE, **runtime: Any) -> bytes:
    """Return the body of a submission."""
    fields = {"build": {"channel": "latest"}, "profile": {"text": text}, "runtime": runtime}
    return json.dumps(fields).encode()


class Caller:
    """One caller with one connection; not thread-safe."""

    def __init__(self, url: str, key: str) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def submit(self, text: str = PROFILE, **runtime: Any) -> int:
        """Submit a job and return its id."""
        return int(self.request("POST", JOBS, submission(text, **runtime))["id"])

    def timed(self, method: str, path: str, body: bytes | None = None) -> float:
        """Make a request and return its duration in seconds."""
        started = time.perf_counter()
        self.request(method, path, body)
        return time.perf_counter() - started

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = MappingProxyType({})
    ) -> Any:
        """Make a request and return the response. If the server has closed the idle connection, use a new one."""
        for is_last in (False, True):
            try:
                self._connection.request(method, path, body=body, headers={**self._headers, **headers})
                response = self._connection.getresponse()
                content = response.read()
            except (OSError, HTTPException) as error:
                self._connection.close()
                if is_last or not isinstance(error, RemoteDisconnected | ConnectionResetError | BrokenPipeError):
                    raise
            else:
                assert response.status < 300, content
                return json.loads(content)
        raise AssertionError


def in_parallel(calls: Callable[[int], Sequence[float]], *, callers: int) -> list[float]:
    """Call `calls` with the number of each caller, in a thread of its own; return all their durations."""
    with ThreadPoolExecutor(callers) as pool:
        return [seconds for part in pool.map(calls, range(callers)) for seconds in part]


def submit_many(url: str, keys: Sequence[str], *, count: int) -> list[float]:
    """Submit `count` jobs with one caller for each key; return the durations of the requests."""

    def submit(number: int) -> list[float]:
        caller = Caller(url, keys[number])
        return [caller.timed("POST", JOBS, submission()) for _ in range(count // len(keys))]

    return in_parallel(submit, callers=len(keys))
