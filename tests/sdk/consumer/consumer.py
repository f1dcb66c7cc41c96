"""A consumer's program, which is only checked by type checkers and imported."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from simservice_client import (
    ApiError,
    AsyncClient,
    Client,
    JobNotCompleted,
    SimserviceError,
    event_id_of,
    verify_webhook,
)
from simservice_client.error_codes import MaxActiveJobsExceeded
from simservice_client.models import JobStatus, ProfilesetFigures


def show(status: JobStatus) -> None:
    print(f"{status.status} {status.progress.percent:.0f} %", file=sys.stderr)


def best(profile: Path) -> ProfilesetFigures | None:
    with Client() as client:
        result = client.jobs.run(
            profile.read_text(), priority="high", metadata={"file": profile.name}, on_status=show
        )
        client.jobs.download(result.id, Path("reports"), kinds=["html_report"])
        return max(result.ranking, key=lambda row: row.mean, default=None)


def failures_of_yesterday(client: Client) -> dict[str, str | None]:
    since = datetime.now(UTC) - timedelta(days=1)
    return {job.id: job.error_code for job in client.jobs.list(status=["failed"], created_after=since)}


async def run_all(profiles: list[str]) -> list[float]:
    async with AsyncClient("https://sims.example", "key") as client:
        results = await asyncio.gather(*[client.jobs.run(profile) for profile in profiles])
        async for job in client.jobs.list():
            print(job.id, job.title)
    return [result.mean for result in results]


def handle(body: bytes, headers: dict[str, str]) -> str:
    event = verify_webhook(body, headers, secret="secret")
    return f"{event_id_of(headers)} {event.payload.id} {event.payload.status}"


def main() -> int:
    try:
        row = best(Path(sys.argv[1]))
    except MaxActiveJobsExceeded as error:
        print(f"Again in {error.retry_after} s: {error.meta}")
        return 1
    except (JobNotCompleted, ApiError) as error:
        print(error)
        return 1
    except SimserviceError as error:
        print(f"The service cannot be used: {error}")
        return 2
    print(row.name if row else "no profilesets")
    return 0
