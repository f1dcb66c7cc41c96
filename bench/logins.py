"""Duration of login, sign-up and password reset for known and unknown addresses, on a new stack."""

import statistics
import tempfile
import time
from pathlib import Path

import requests

from tests.stack import Stack, running_stack

TRIES = 30
KNOWN = "demo@localhost"
FORMS = {
    "login": ("/accounts/login/", "login", {"password": "wrong"}),
    "sign-up": ("/accounts/signup/", "email", {"password1": "long enough, and rare"}),
    "reset": ("/accounts/password/reset/", "email", {}),
}


def measure(stack: Stack, path: str, fields: dict[str, str], *, number: int) -> float:
    """Return the duration of a form in milliseconds, sent from a new IP address."""
    session, url = requests.Session(), stack.ready["url"] + path
    session.trust_env = False
    session.headers["X-Forwarded-For"] = f"192.0.2.{number}"
    session.get(url, timeout=30)
    fields = {**fields, "csrfmiddlewaretoken": session.cookies["csrftoken"]}
    started = time.perf_counter()
    session.post(url, fields, timeout=30, allow_redirects=False)
    return 1000 * (time.perf_counter() - started)


def main() -> None:
    with tempfile.TemporaryDirectory() as data, running_stack(Path(data), TRUSTED_PROXIES="1") as stack:
        for name, (path, field, others) in FORMS.items():
            times: dict[str, list[float]] = {"known": [], "unknown": []}
            for number in range(TRIES):
                # Alternate, so that other load on the machine affects both.
                for kind, address in (("known", KNOWN), ("unknown", f"nobody-{number}@example.org")):
                    times[kind].append(measure(stack, path, {field: address, **others}, number=number))
            known, unknown = (statistics.median(times[kind]) for kind in ("known", "unknown"))
            print(f"{name:8} median of {TRIES}: known {known:6.1f} ms, unknown {unknown:6.1f} ms")


if __name__ == "__main__":
    main()
