"""Whether the process lives, and whether the service can do its work."""

from typing import Literal, TypedDict

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from redis.exceptions import RedisError

from simservice import presence
from simservice.api.methods import read_only
from simservice.api.operations import Answer, Operation, documented


class Alive(TypedDict):
    """The process answers."""

    status: Literal["ok"]


class Readiness(TypedDict):
    """Whether the service can do its work, and what of it answers."""

    status: Literal["ok", "unavailable"]
    database: bool
    redis: bool
    worker: bool


HEALTHZ = Operation(
    id="getHealth",
    tag="Health",
    summary="Ask whether the process lives",
    answers={200: Answer(description="It does", shape=Alive, example={"status": "ok"})},
)
READYZ = Operation(
    id="getReadiness",
    tag="Health",
    summary="Ask whether the service can do its work",
    description="It needs the database, Redis and at least one simulation worker.",
    answers={
        200: Answer(
            description="It can",
            shape=Readiness,
            example={"status": "ok", "database": True, "redis": True, "worker": True},
        ),
        503: Answer(
            description="It cannot",
            shape=Readiness,
            example={"status": "unavailable", "database": True, "redis": True, "worker": False},
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
    parts = {"database": database_answers(), **redis_and_workers()}
    ready = all(parts.values())
    return JsonResponse({"status": "ok" if ready else "unavailable", **parts}, status=200 if ready else 503)


def database_answers() -> bool:
    """Tell whether PostgreSQL answers."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def redis_and_workers() -> dict[str, bool]:
    """Tell whether Redis answers and knows of a live simulation worker."""
    try:
        return {"redis": True, "worker": bool(presence.simulation_workers())}
    except RedisError:
        return {"redis": False, "worker": False}
