"""Whether the process lives, and whether the service can do its work."""

from concurrent.futures import ThreadPoolExecutor, wait
from typing import Annotated, Literal, TypedDict

from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpRequest, JsonResponse
from redis.exceptions import RedisError

from simservice.api.methods import read_only
from simservice.api.operations import Operation, ResponseSpec, documented
from simservice.redis import worker_heartbeats

ANSWERED_WITHIN_SECONDS = 2.5
PARTS = ("database", "redis", "worker")
LAYERS_EXAMPLE = ["bubblewrap", "landlock", "network_namespace", "own_uid", "rlimits", "seccomp"]

# A part that hangs must not hold the answer; connections give up by themselves after a few seconds.
askers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="readiness")


class Alive(TypedDict):
    """The process is running."""

    status: Literal["ok"]


class Readiness(TypedDict):
    """State of the service and of the systems it needs."""

    status: Literal["ok", "unavailable"]
    database: bool
    redis: bool
    worker: bool
    sandbox: Annotated[list[str], "The sandbox layers that are active on every live simulation worker"]


HEALTHZ = Operation(
    id="getHealth",
    tag="Health",
    summary="Check liveness",
    responses={200: ResponseSpec(description="The process is running.", shape=Alive, example={"status": "ok"})},
)
READYZ = Operation(
    id="getReadiness",
    tag="Health",
    summary="Check readiness",
    description="The service is ready if the database, Redis and at least one simulation worker are available.",
    responses={
        200: ResponseSpec(
            description="The service is ready.",
            shape=Readiness,
            example={"status": "ok", "database": True, "redis": True, "worker": True, "sandbox": LAYERS_EXAMPLE},
        ),
        503: ResponseSpec(
            description="The service is not ready.",
            shape=Readiness,
            example={"status": "unavailable", "database": True, "redis": True, "worker": False, "sandbox": []},
        ),
    },
)


@documented(HEALTHZ)
@read_only
def healthz(request: HttpRequest) -> JsonResponse:  # noqa: ARG001
    """Answer 200 as long as the process answers at all."""
    return JsonResponse({"status": "ok"})


@documented(READYZ)
@read_only
def readyz(request: HttpRequest) -> JsonResponse:  # noqa: ARG001
    """Answer 200 when the database, Redis and at least one simulation worker answer, else 503 and what does not."""
    parts = answers()
    ready = all(parts[name] for name in PARTS)
    return JsonResponse({"status": "ok" if ready else "unavailable", **parts}, status=200 if ready else 503)


def answers() -> dict[str, bool | list[str]]:
    """Ask all parts at once; one that takes longer than two and a half seconds does not answer."""
    parts: dict[str, bool | list[str]] = {**dict.fromkeys(PARTS, False), "sandbox": []}
    asked = [askers.submit(ask) for ask in (database_answers, redis_and_workers)]
    done, late = wait(asked, timeout=ANSWERED_WITHIN_SECONDS)
    for question in late:
        question.cancel()
    for question in done:
        parts |= question.result()
    return parts


def database_answers() -> dict[str, bool | list[str]]:
    """Tell whether PostgreSQL answers on a new connection."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return {"database": False}
    finally:
        connection.close()
    return {"database": True}


def redis_and_workers() -> dict[str, bool | list[str]]:
    """Return whether Redis answers, whether a simulation worker is live, and the sandbox layers."""
    try:
        workers = worker_heartbeats.simulation_workers()
    except RedisError:
        return {"redis": False, "worker": False, "sandbox": []}
    return {"redis": True, "worker": bool(workers), "sandbox": worker_heartbeats.common_layers(workers)}
