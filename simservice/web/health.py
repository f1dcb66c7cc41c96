"""Endpoints for monitoring: `/healthz` (liveness), `/readyz` (readiness) and `/metrics` (Prometheus)."""

from concurrent.futures import ThreadPoolExecutor, wait
from secrets import compare_digest
from typing import Annotated, Literal, TypedDict

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from redis.exceptions import RedisError

from simservice import clocks, worker_heartbeats
from simservice.api.errors import NotFound, NotReady, error_response
from simservice.api.methods import read_only
from simservice.api.operations import Operation, ResponseSpec, documented
from simservice.telemetry import known_errors
from simservice.telemetry.metrics import exposition
from simservice.web.error_pages import wants_json

TIMEOUT_SECONDS = 2.5
DEPENDENCIES = ("database", "clock", "redis", "worker")
LAYERS_EXAMPLE = ["bubblewrap", "landlock", "network_namespace", "own_uid", "rlimits", "seccomp"]

# Connections that hang time out by themselves after a few seconds, but the response does not wait for them.
_threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="readiness")


class Alive(TypedDict):
    """The process is running."""

    status: Literal["ok"]


class Readiness(TypedDict):
    """State of the service and of the systems it needs."""

    status: Literal["ok", "unavailable"]
    database: bool
    clock: Annotated[bool, "Whether this process's clock agrees with the database's"]
    redis: bool
    worker: bool
    sandbox: Annotated[list[str], "The sandbox layers that are active on every live simulation worker"]


HEALTHZ = Operation(
    id="getHealth",
    tag="Health",
    summary="Check liveness",
    returns=ResponseSpec(description="The process is running.", shape=Alive, example={"status": "ok"}),
)
READYZ = Operation(
    id="getReadiness",
    tag="Health",
    summary="Check readiness",
    description="The service is ready if the database, Redis and at least one simulation worker are available, and "
    "this process's clock agrees with the database's.",
    returns=ResponseSpec(
        description="The service is ready.",
        shape=Readiness,
        example={"status": "ok", **dict.fromkeys(DEPENDENCIES, True), "sandbox": LAYERS_EXAMPLE},
    ),
    also={
        503: ResponseSpec(
            description="The service is not ready. A client that asks for JSON with `Accept`, or sends a key, gets "
            "the error `queue_unavailable` instead, with these fields in `meta`.",
            shape=Readiness,
            example={"status": "unavailable", **dict.fromkeys(DEPENDENCIES, True), "worker": False, "sandbox": []},
        )
    },
)


@documented(HEALTHZ)
@read_only
def healthz(request: HttpRequest) -> JsonResponse:  # noqa: ARG001
    """Return 200 while the process is running."""
    return JsonResponse({"status": "ok"})


@documented(READYZ)
@read_only
def readyz(request: HttpRequest) -> JsonResponse:
    """Return 200 if the checks of all `DEPENDENCIES` pass, else 503."""
    state = _check_all()
    if all(state[name] for name in DEPENDENCIES):
        return JsonResponse({"status": "ok", **state})
    if wants_json(request):
        return error_response(NotReady(state), request)
    return JsonResponse({"status": "unavailable", **state}, status=503)


def _check_all() -> dict[str, bool | list[str]]:
    """Check all dependencies at once. Those that take longer than TIMEOUT_SECONDS are unavailable."""
    state: dict[str, bool | list[str]] = {**dict.fromkeys(DEPENDENCIES, False), "clock": True, "sandbox": []}
    checks = [_threads.submit(check) for check in (_check_database, _check_redis_and_workers)]
    done, late = wait(checks, timeout=TIMEOUT_SECONDS)
    for check in late:
        check.cancel()
    for check in done:
        state |= check.result()
    return state


def _check_database() -> dict[str, bool | list[str]]:
    """Return whether PostgreSQL responds on a new connection, and whether this process's clock is right."""
    try:
        return {"database": True, "clock": clocks.is_right()}
    except DatabaseError as error:
        known_errors.report_if_known(error)
        return {"database": False}
    finally:
        connection.close()


def _check_redis_and_workers() -> dict[str, bool | list[str]]:
    """Return whether Redis responds, whether a simulation worker claims jobs, and the common sandbox layers."""
    try:
        workers = worker_heartbeats.simulation_workers()
    except RedisError as error:
        known_errors.report_if_known(error)
        return {"redis": False, "worker": False, "sandbox": []}
    return {
        "redis": True,
        "worker": worker_heartbeats.total_slots(workers) > 0,
        "sandbox": worker_heartbeats.common_layers(workers),
    }


@read_only
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics to callers that send `METRICS_TOKEN`, else 404."""
    sent = request.headers.get("Authorization", "").encode()
    expected = f"Bearer {settings.METRICS_TOKEN}".encode()
    if not settings.METRICS_TOKEN or not compare_digest(sent, expected):
        return error_response(NotFound(), request)
    return HttpResponse(exposition(), content_type=CONTENT_TYPE_PLAIN_0_0_4)
