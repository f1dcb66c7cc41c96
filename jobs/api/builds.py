"""Simulator builds: `GET /v1/{resource}/builds` and `GET /v1/{resource}/builds/{id}`."""

from datetime import datetime
from typing import Annotated, Literal, TypedDict

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import models, registry
from jobs.api.base import EXAMPLE_CREATED, JobsEndpoint
from jobs.enums import Channel
from jobs.results import queries
from simservice.api import errors
from simservice.api.operations import Link, Operation, Parameter, ResponseSpec, Source, documented
from simservice.api.times import iso
from simservice.shapes import Count, Date, Time, Uuid

CheckStatus = Literal["pass", "partial", "fail", "unknown"]


class CheckCounts(TypedDict):
    """Number of bundled profiles that were checked, that ran, and that failed."""

    total: Count
    passed: Count
    failed: Count


class Checks(TypedDict):
    """Test runs of the profiles bundled with a build."""

    status: Annotated[
        CheckStatus,
        "`pass` if all profiles ran, `partial` if some failed, `fail` if all failed, `unknown` if there are none",
    ]
    checks: CheckCounts
    failures: Annotated[list[str], "The profiles that failed"]
    gatedOn: Annotated[list[str], "Checks that a build must pass to become available. Always empty"]
    retrievedAt: Annotated[Time, "When the profiles were checked"]


class JobChecks(TypedDict):
    """Summary of the checks of a job's build."""

    status: CheckStatus
    failed: Annotated[Count, "Number of profiles that failed"]


class JobBuild(TypedDict):
    """The build that ran a job."""

    id: Uuid
    channel: Channel
    commit: str
    ci: Annotated[JobChecks | None, "Null if no bundled profile was checked"]


class GameVersion(TypedDict):
    """Version of the game data."""

    version: str
    hotfixDate: Date


class GameData(TypedDict):
    """Game data that a build contains."""

    live: GameVersion
    ptr: GameVersion | None


class BundledProfiles(TypedDict):
    """Paths of the files that a build contains. Profiles can include them by path or by file name."""

    manifest: Annotated[list[str], "Profiles that can be simulated on their own"]
    includable: Annotated[list[str], "All files that can be included, such as action lists and gear sets"]


class Build(TypedDict):
    """A build of the simulator."""

    gitBranch: str
    repo: Annotated[str, "URL of the source repository. Empty if unknown"]
    commit: str
    simcVersion: str
    gameData: Annotated[GameData | None, "Null unless both version and hotfix date are known"]
    id: Uuid
    createdAt: Time
    ci: Annotated[Checks | None, "Null if no bundled profile was checked"]
    profiles: BundledProfiles | None


class ChannelBuild(Build):
    """The current build of a channel."""

    channel: Channel


class BuildList(TypedDict):
    """The current build of each channel on each branch."""

    generatedAt: Time
    builds: list[ChannelBuild]


EXAMPLE_BUILD_ID = "0b8f6a52-6f3b-4a7e-9d55-2f3f6c1b7a10"
EXAMPLE_JOB_BUILD: JobBuild = {
    "id": EXAMPLE_BUILD_ID,
    "channel": Channel.LATEST,
    "commit": "4f1d0c2",
    "ci": {"status": "partial", "failed": 1},
}
EXAMPLE_BUILD: Build = {
    "gitBranch": "midnight",
    "repo": "https://github.com/simulationcraft/simc",
    "commit": "4f1d0c2",
    "simcVersion": "1200-01",
    "gameData": {"live": {"version": "12.0.0.64000", "hotfixDate": "2026-11-18"}, "ptr": None},
    "id": EXAMPLE_BUILD_ID,
    "createdAt": "2026-11-20T04:00:00.000Z",
    "ci": {
        "status": "partial",
        "checks": {"total": 172, "passed": 171, "failed": 1},
        "failures": ["Example_Mage_Frost.simc"],
        "gatedOn": [],
        "retrievedAt": "2026-11-20T04:02:00.000Z",
    },
    "profiles": {"manifest": ["frost_mage.simc"], "includable": ["apls/mage.simc", "frost_mage.simc"]},
}
EXAMPLE_BUILDS: BuildList = {
    "generatedAt": EXAMPLE_CREATED,
    "builds": [{"channel": Channel.LATEST, **EXAMPLE_BUILD}],
}
BUILD_ID = Parameter(
    name="build_id",
    location="path",
    shape=Uuid,
    description="The id of the build.",
    example=EXAMPLE_BUILD_ID,
    source=Source(operation="listBuilds", pointer="/builds/0/id"),
)
LIST_BUILDS = Operation(
    id="listBuilds",
    tag="Builds",
    summary="List builds",
    description="Returns the current build of each channel on each branch.",
    returns=ResponseSpec(
        description="The current builds.",
        shape=BuildList,
        example=EXAMPLE_BUILDS,
        links={"getBuild": Link(operation="getBuild", parameters={"build_id": "$response.body#/builds/0/id"})},
    ),
)
GET_BUILD = Operation(
    id="getBuild",
    tag="Builds",
    summary="Get a build",
    parameters=[BUILD_ID],
    returns=ResponseSpec(description="The build.", shape=Build, example=EXAMPLE_BUILD),
    errors=[errors.NotFound],
)


class BuildListView(JobsEndpoint):
    """`GET /v1/{resource}/builds`"""

    @documented(LIST_BUILDS)
    def get(self, request: Request) -> Response:  # noqa: ARG002
        current = registry.current(with_files=True)
        builds: list[ChannelBuild] = [{"channel": channel, **_build_object(build)} for channel, build in current]
        body: BuildList = {"generatedAt": iso(timezone.now()), "builds": builds}
        return Response(body)


class BuildView(JobsEndpoint):
    """`GET /v1/{resource}/builds/{id}`"""

    @documented(GET_BUILD)
    def get(self, request: Request, build_id: str) -> Response:  # noqa: ARG002
        return Response(_build_object(queries.find_build(build_id)))


def _build_object(build: models.Build) -> Build:
    """Return a build (docs/reference/api.md#list-builds)."""
    game_data: GameData | None = None
    if build.wow_version and build.hotfix_date is not None:
        live: GameVersion = {"version": build.wow_version, "hotfixDate": build.hotfix_date.isoformat()}
        game_data = {"live": live, "ptr": None}
    return {
        "gitBranch": build.git_branch,
        "repo": build.repo,
        "commit": build.commit,
        "simcVersion": build.simc_version,
        "gameData": game_data,
        "id": str(build.pk),
        "createdAt": iso(build.created_at),
        "ci": _checks(build),
        "profiles": {"manifest": build.profiles, "includable": build.includable} if build.profiles_path else None,
    }


def job_build(job: models.Job) -> JobBuild | None:
    """Return the `build` of a job, None until a build was chosen."""
    build: models.Build | None = job.build
    if build is None:
        return None
    checks = _checks(build)
    return {
        "id": str(build.pk),
        "channel": Channel(job.channel),
        "commit": build.commit,
        "ci": checks and {"status": checks["status"], "failed": checks["checks"]["failed"]},
    }


def _checks(build: models.Build) -> Checks | None:
    """Return the checks of the bundled profiles, None if none were checked."""
    if build.ci is None:
        return None
    total, failures = build.ci["total"], [failure["name"] for failure in build.ci["failures"]]
    status: CheckStatus = "unknown"
    if total:
        status = "partial" if 0 < len(failures) < total else "fail" if failures else "pass"
    return {
        "status": status,
        "checks": {"total": total, "passed": total - len(failures), "failed": len(failures)},
        "failures": failures,
        "gatedOn": [],
        "retrievedAt": iso(datetime.fromisoformat(build.ci["checked_at"])),
    }
