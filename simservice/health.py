"""Whether the process lives, and whether the service can do its work."""

from concurrent.futures import ThreadPoolExecutor, wait

from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpRequest, JsonResponse
from redis.exceptions import RedisError

from simservice import presence

ANSWERED_WITHIN_SECONDS = 2.5

# A part that hangs must not hold the answer; connections give up by themselves after a few seconds.
askers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="readiness")


def healthz(request: HttpRequest) -> JsonResponse:  # noqa: ARG001
    """Answer 200 as long as the process answers at all."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> JsonResponse:  # noqa: ARG001
    """Answer 200 when the database, Redis and at least one simulation worker answer, else 503 and what does not."""
    parts = answers()
    ready = all(parts.values())
    return JsonResponse({"status": "ok" if ready else "unavailable", **parts}, status=200 if ready else 503)


def answers() -> dict[str, bool]:
    """Ask all parts at once; one that takes longer than two and a half seconds does not answer."""
    parts = {"database": False, "redis": False, "worker": False}
    asked = [askers.submit(ask) for ask in (database_answers, redis_and_workers)]
    done, late = wait(asked, timeout=ANSWERED_WITHIN_SECONDS)
    for question in late:
        question.cancel()
    for question in done:
        parts |= question.result()
    return parts


def database_answers() -> dict[str, bool]:
    """Tell whether PostgreSQL answers on a new connection."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return {"database": False}
    finally:
        connection.close()
    return {"database": True}


def redis_and_workers() -> dict[str, bool]:
    """Tell whether Redis answers and knows of a live simulation worker."""
    try:
        return {"redis": True, "worker": bool(presence.simulation_workers())}
    except RedisError:
        return {"redis": False, "worker": False}
