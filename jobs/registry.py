"""The registered builds: which one a job gets for its channel, broken and withdrawn ones, removal of old ones.

The order of a channel's builds is defined twice: in `_candidates` and, for attempts, in `registry.sql`. A test
compares them.
"""

import logging
import os
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Case, Exists, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from jobs.enums import ACTIVE, Channel
from jobs.models import Build, Job
from simc.profiles import bundle
from simservice.clocks import database_time
from simservice.postgresql.statements import RowReader, load, run

logger = logging.getLogger(__name__)

MAX_WITHDRAWN_AT_ONCE = 100
BROKEN = ~Q(broken_reason="")
WITHDRAWABLE = Q(withdrawn_at=None) | BROKEN
_BUILD = RowReader(Build, without=["profiles", "includable"])
SQL = load(__file__, columns=_BUILD.columns)


def available(git_branch: str) -> QuerySet[Build]:
    """Return the builds of a branch that have not been withdrawn."""
    return Build.objects.filter(git_branch=git_branch, withdrawn_at=None)


def for_channel(channel: Channel, git_branch: str, *, now: datetime) -> Build | None:
    """Return the build that a channel means at `now` (UTC), without its lists of files, or None."""
    return _candidates(channel, git_branch, now=now).defer("profiles", "includable").first()


def _candidates(channel: Channel, git_branch: str, *, now: datetime) -> QuerySet[Build]:
    """Return the builds of a branch, in the order of a channel's preference at `now` (UTC).

    `latest` prefers the newest; `nightly` the newest from before today; `weekly` the first since Monday, else the
    newest from before. Without such a build, a channel points to the oldest newer one, so it is never empty while
    its branch has a build.
    """
    builds = available(git_branch)
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if channel == Channel.LATEST:
        return builds.order_by("-created_at", "pk")
    if channel == Channel.NIGHTLY:
        return builds.order_by(_newest_first(Q(created_at__lt=today)), "created_at", "pk")
    monday = today - timedelta(days=today.weekday())
    this_week = _oldest_first(Q(created_at__gte=monday, created_at__lte=now))
    return builds.order_by(this_week, _newest_first(Q(created_at__lt=monday)), "created_at", "pk")


def _newest_first(condition: Q) -> Any:
    """Order builds that meet a condition first, newest first."""
    return Case(When(condition, then="created_at")).desc(nulls_last=True)


def _oldest_first(condition: Q) -> Any:
    """Order builds that meet a condition first, oldest first."""
    return Case(When(condition, then="created_at")).asc(nulls_last=True)


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """The build that a job runs on now, its profile, its hold, and whether its cancellation was requested."""

    build: Build
    profile_text: str
    hold_credits: int
    cancel_requested: bool


def prepare(job: Job, *, missing: Sequence[UUID] = ()) -> Preparation | None:
    """Return the data that a claimed job needs, or None if no build is available.

    `missing` are builds that this machine lacks. Do not keep the build: it can be withdrawn at any time.
    """
    now = timezone.now()
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    parameters = {
        "now": now,
        "today": today,
        "monday": today - timedelta(days=today.weekday()),
        "job_id": job.pk,
        "git_branch": job.git_branch,
        "pinned_build_id": job.pinned_build_id,
        "missing": list(missing),
    }
    for row in run(SQL[f"prepare_{job.channel}"], values=parameters):
        profile_text, hold_credits, cancel_requested = row[_BUILD.width :]
        return Preparation(
            build=_BUILD.instance(row),
            profile_text=profile_text,
            hold_credits=hold_credits,
            cancel_requested=cancel_requested,
        )
    return None


def current(*, with_files: bool = False) -> list[tuple[Channel, Build]]:
    """Return the current build of each channel on each branch, if it has one.

    A build can list thousands of files, so its `profiles` and `includable` are read only `with_files`.
    """
    build_ids = _builds_by_channel(settings.GIT_BRANCHES, now=timezone.now())
    deferred = () if with_files else ("profiles", "includable")
    builds = Build.objects.defer(*deferred).in_bulk(build_ids.values())
    return [(channel, builds[pk]) for (_, channel), pk in build_ids.items() if pk in builds]


def _builds_by_channel(branches: Iterable[str], *, now: datetime) -> dict[tuple[str, Channel], UUID]:
    """Return the build ids of the channels of some branches at `now`, by branch and channel."""
    keys = [(branch, channel) for branch in branches for channel in Channel]
    queries = [
        _candidates(channel, branch, now=now).annotate(index=Value(index)).values_list("index", "pk")[:1]
        for index, (branch, channel) in enumerate(keys)
    ]
    build_ids = dict(queries[0].union(*queries[1:], all=True)) if queries else {}
    return {keys[index]: build_ids[index] for index in sorted(build_ids)}


class BundledNames(Container[str]):
    """The names of bundled files that a job on a branch, or on its pinned build, can include.

    Few profiles include any, and there are many names, so they are read when the first one is looked up. `profiles`
    contains the names of files that simulate alone.
    """

    def __init__(self, git_branch: str, *, build_id: UUID | None) -> None:
        self.git_branch = git_branch
        self.build_id = build_id
        self.profiles = _Profiles(self)

    def __contains__(self, name: object) -> bool:
        return any(name in names for names in self.names)

    @cached_property
    def names(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of files that simulate alone, and of the others."""
        builds = available(self.git_branch)
        if self.build_id is not None:
            builds = builds.filter(pk=self.build_id)
        alone, others = set[str](), set[str]()
        for profiles, includable in builds.values_list("profiles", "includable"):
            # A file name shared by several files is ambiguous, even if only one of them simulates alone.
            names = {*bundle.names(includable)} | {*profiles}
            alone |= names & {*bundle.names(profiles)}
            others |= names
        return frozenset(alone), frozenset(others - alone)


@dataclass(frozen=True)
class _Profiles(Container[str]):
    """The bundled names of a branch whose files simulate alone."""

    bundled: BundledNames

    def __contains__(self, name: object) -> bool:
        return name in self.bundled.names[0]


def withdraw_old() -> int:
    """Withdraw builds past their retention, and clear the state of builds broken for as long. Return how many.

    Builds that a channel points to, or that an unfinished job runs on or is pinned to, stay. The rows stay too:
    ended jobs refer to them, and `unused_folders` finds the folders by them.
    """
    old = _unneeded(now=database_time(), days=settings.BUILD_RETENTION_DAYS)
    return withdraw(Build.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:MAX_WITHDRAWN_AT_ONCE])))


def _unneeded(*, now: datetime, days: int) -> QuerySet[Build]:
    """Return builds available or broken for `days` that no channel or unfinished job needs."""
    before = now - timedelta(days=days)
    branches = Build.objects.filter(withdrawn_at=None).order_by().values_list("git_branch", flat=True).distinct()
    unfinished = Job.objects.filter(Q(build=OuterRef("pk")) | Q(pinned_build=OuterRef("pk")), status__in=ACTIVE)
    broken = BROKEN & Q(withdrawn_at__lt=before)
    old = Build.objects.filter(~Exists(unfinished), Q(withdrawn_at=None) | broken, created_at__lt=before)
    return old.exclude(pk__in=_builds_by_channel(branches, now=now).values())


def unused_folders(parent: Path) -> list[Path]:
    """Return the subfolders of a folder whose builds no job can use, and those of interrupted builds (`.part`).

    A folder without a build of this database is left out, because it can belong to another database.
    """
    unfinished = Job.objects.filter(Q(build=OuterRef("pk")) | Q(pinned_build=OuterRef("pk")), status__in=ACTIVE)
    is_used = Q(withdrawn_at=None) | Q(BROKEN) | Exists(unfinished)
    builds = [(Path(path), used) for path, used in Build.objects.values_list("executable", is_used)]
    if not builds:
        return []
    folders = sorted(path for path in parent.resolve().iterdir() if path.is_dir())
    return [folder for folder in folders if folder.suffix == ".part" or _is_unused(folder, builds)]


def _is_unused(folder: Path, builds: Iterable[tuple[Path, bool]]) -> bool:
    """Return whether a folder contains executables, and none of them is used."""
    uses = [is_used for executable, is_used in builds if executable.is_relative_to(folder)]
    return bool(uses) and not any(uses)


def withdraw(builds: QuerySet[Build]) -> int:
    """Withdraw builds and clear the broken state of broken ones. Return how many changed.

    Jobs that already run on them continue.
    """
    withdrawn_at = Coalesce("withdrawn_at", Now())
    return builds.filter(WITHDRAWABLE).update(withdrawn_at=withdrawn_at, broken_reason="")


def emptied_branches(builds: QuerySet[Build]) -> set[str]:
    """Return the branches whose available builds are all among `builds`."""
    same_branch = Build.objects.filter(withdrawn_at=None, git_branch=OuterRef("git_branch"))
    last = builds.filter(~Exists(same_branch.exclude(pk__in=builds.values("pk"))), withdrawn_at=None)
    return set(last.values_list("git_branch", flat=True))


def restore(builds: QuerySet[Build]) -> int:
    """Make withdrawn builds available again and return how many.

    Check a broken build first, with `build_registration.require_as_registered`.
    """
    return builds.exclude(withdrawn_at=None).update(withdrawn_at=None, broken_reason="")


def is_installed(build: Build) -> bool:
    """Return whether this machine has the executable of a build."""
    return os.access(build.executable, os.F_OK)


def mark_broken(build: Build, reason: str) -> bool:
    """Withdraw a build that a worker has but could not run; return False if it was withdrawn or moved meanwhile.

    One worker decides for all of them, because they should have the same builds (docs/explanation/scaling.md).
    """
    same = Build.objects.filter(
        pk=build.pk, withdrawn_at=None, executable=build.executable, readable_paths=build.readable_paths
    )
    marked = bool(same.update(withdrawn_at=Now(), broken_reason=reason[:500]))
    if marked:
        logger.error("build %s (%s) is broken and no longer available: %s", build.pk, build, reason)
    return marked
