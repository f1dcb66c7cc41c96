"""Which simulator builds there are, which one a job runs on, and when old ones are forgotten."""

from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Case, Exists, OuterRef, Q, QuerySet, Value, When
from django.utils import timezone

from jobs.models import ACTIVE, Build, Channel, Job, Run
from jobs.profiles import bundle

FORGOTTEN_AT_ONCE = 100


def available(git_branch: str) -> QuerySet[Build]:
    """Return the builds of a branch that have not been withdrawn."""
    return Build.objects.filter(git_branch=git_branch, withdrawn_at=None)


def resolve(job: Job) -> Build | None:
    """Return the build a job runs on now: its pin if that is still to be had, else its channel's, else None."""
    pin = job.pinned_build
    if pin is not None and pin.withdrawn_at is None:
        return pin
    return for_channel(Channel(job.channel), job.git_branch, now=timezone.now())


def for_channel(channel: Channel, git_branch: str, *, now: datetime) -> Build | None:
    """Return the build that a channel means at `now` (UTC), or None. One query."""
    return candidates(channel, git_branch, now=now).first()


def candidates(channel: Channel, git_branch: str, *, now: datetime) -> QuerySet[Build]:
    """Return the builds that a channel may mean at `now` (UTC), the one that it means first.

    `latest` is the newest; `nightly` the newest from before today; `weekly` the first of the week that began on
    Monday, else the newest from before it.
    """
    builds = available(git_branch)
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if channel == Channel.LATEST:
        return builds.order_by("-created_at")
    if channel == Channel.NIGHTLY:
        return builds.filter(created_at__lt=today).order_by("-created_at")
    this_week = When(created_at__gte=today - timedelta(days=today.weekday()), then="created_at")
    return builds.filter(created_at__lte=now).order_by(Case(this_week).asc(nulls_last=True), "-created_at")


def current() -> list[tuple[Channel, Build]]:
    """Return what each channel means now on each branch, channels without a build left out. Two queries."""
    now = timezone.now()
    meant = [(channel, branch) for branch in settings.GIT_BRANCHES for channel in Channel]
    first, *others = [
        candidates(channel, branch, now=now).annotate(place=Value(place)).values_list("place", "pk")[:1]
        for place, (channel, branch) in enumerate(meant)
    ]
    found = dict(first.union(*others, all=True))
    builds = Build.objects.in_bulk(found.values())
    return [(channel, builds[found[place]]) for place, (channel, _) in enumerate(meant) if place in found]


class BundledNames(Container[str]):
    """The names of bundled files that a job on a branch, or on its pinned build, may include.

    Few profiles include any, and there are many names, so the database is asked when the first name is. `profiles`
    are the names of files that simulate alone.
    """

    def __init__(self, git_branch: str, *, build_id: UUID | None) -> None:
        self.git_branch = git_branch
        self.build_id = build_id
        self.profiles = Profiles(self)

    def __contains__(self, name: object) -> bool:
        return any(name in names for names in self.names)

    @cached_property
    def names(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of files that simulate alone, and of the others. One query."""
        builds = available(self.git_branch)
        if self.build_id is not None:
            builds = builds.filter(pk=self.build_id)
        alone, others = set[str](), set[str]()
        for profiles, includable in builds.values_list("profiles", "includable"):
            # A file name that two files have stands for neither, also when only one of them simulates alone.
            known = {*bundle.names(includable)} | {*profiles}
            alone |= known & {*bundle.names(profiles)}
            others |= known
        return frozenset(alone), frozenset(others - alone)


@dataclass(frozen=True)
class Profiles(Container[str]):
    """Those of a branch's bundled names that stand for files that simulate alone."""

    bundled: BundledNames

    def __contains__(self, name: object) -> bool:
        return name in self.bundled.names[0]


def forget_old() -> int:
    """Forget builds past their retention; return how many.

    Each branch's newest stays, and so does what an unfinished job runs on or is pinned to. A build that ended jobs
    still name is withdrawn, so that they can say what they ran on; any other is removed.
    """
    old = unwanted(before=timezone.now() - timedelta(days=settings.BUILD_RETENTION_DAYS))
    return sum(forget(build) for build in old[:FORGOTTEN_AT_ONCE])


def unwanted(*, before: datetime) -> QuerySet[Build]:
    """Return the available builds older than `before` that nobody needs."""
    newer = Build.objects.filter(
        git_branch=OuterRef("git_branch"), withdrawn_at=None, created_at__gt=OuterRef("created_at")
    )
    wanting = Job.objects.filter(Q(build=OuterRef("pk")) | Q(pinned_build=OuterRef("pk")), status__in=ACTIVE)
    return Build.objects.filter(Exists(newer), ~Exists(wanting), withdrawn_at=None, created_at__lt=before)


def forget(build: Build) -> bool:
    """Remove one build, or only withdraw it when jobs name it; False when somebody else was first."""
    with transaction.atomic():
        locked = Build.objects.select_for_update().filter(pk=build.pk, withdrawn_at=None).first()
        if locked is None:
            return False
        if Job.objects.filter(build=locked).exists() or Run.objects.filter(build=locked).exists():
            return bool(Build.objects.filter(pk=locked.pk).update(withdrawn_at=timezone.now()))
        locked.delete()
    return True


def withdraw(builds: QuerySet[Build]) -> int:
    """Let no further job run on these builds; jobs that run go on. Return how many were available."""
    return builds.filter(withdrawn_at=None).update(withdrawn_at=timezone.now())


def restore(builds: QuerySet[Build]) -> int:
    """Make withdrawn builds available again; return how many."""
    return builds.exclude(withdrawn_at=None).update(withdrawn_at=None)
