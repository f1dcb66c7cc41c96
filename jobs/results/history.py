"""The history of a character: the results of an account's completed jobs whose first character it is.

The rows of jobs remain after their retention, and so does their part of the history.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import JSONField, QuerySet
from django.db.models.expressions import RawSQL

from billing.models import Account
from jobs.enums import Status
from jobs.models import Build, Job, is_visible
from jobs.results.common_variants import Pair
from jobs.results.outlines import Outline, outlines_of
from jobs.results.queries import TITLED
from jobs.results.rankings import Entry, listed
from jobs.results.verdicts import margin_between, widened

MAX_CHARACTERS = 200
# The latest character is searched for among this many of the account's newest completed jobs.
LATEST_JOBS = 50
# The distinct names, each found by one step in the index `job_by_character`
NAMES = """
    WITH RECURSIVE names AS (
        ({first})
        UNION ALL
        SELECT ({next}) FROM names WHERE names.character IS NOT NULL
    )
    SELECT character FROM names WHERE character IS NOT NULL LIMIT %(limit)s
"""
FIRST_NAME = """
    SELECT character FROM jobs_job
    WHERE account_id = %(account_id)s AND status = 'completed' AND character <> '' {more}
    ORDER BY account_id, character LIMIT 1
"""
# The figures of a summary, and a digest of the gear and talents. The summary is decompressed once, and not once for
# each figure.
FIGURES = """(
    SELECT jsonb_build_array(
        summary.metric, summary."mainActor" - 'profilesets' - 'gear' - 'talents',
        md5(concat(summary."mainActor" -> 'gear', ' ', summary."mainActor" -> 'talents'))
    )
    FROM jsonb_to_record(jobs_job.summary) AS summary(metric text, "mainActor" jsonb)
    WHERE summary."mainActor" ->> 'mean' IS NOT NULL
)"""
NO_OUTLINE = Outline()


@dataclass(frozen=True, kw_only=True)
class Point:
    """The mean damage per second of a job. Jobs with the same `equipment` have the same gear and talents."""

    job: Job
    entry: Entry
    equipment: str = ""
    outline: Outline = NO_OUTLINE

    @property
    def mean(self) -> float:
        return self.entry.mean

    @property
    def error(self) -> float:
        """Return half of the 95 % interval of the mean."""
        return self.entry.error

    @property
    def at(self) -> datetime:
        return self.job.created_at

    @property
    def build(self) -> Build | None:
        return self.job.build


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Jobs with the same gear, talents and fight, in the order of submission.

    `change` compares its last job with the last one of the setup before it, None for the first setup.
    """

    points: Sequence[Point]
    change: Pair | None

    @property
    def outline(self) -> Outline:
        return self.points[-1].outline


def setups_of(points: Sequence[Point]) -> list[Setup]:
    """Return the setups of points in the order of submission, in the order of their first jobs.

    The margins of all changes hold together with a probability of 95 %.
    """
    groups: dict[Hashable, list[Point]] = {}
    for point in points:
        groups.setdefault((point.equipment, point.outline), []).append(point)
    factor = widened(len(groups) - 1)
    setups: list[Setup] = []
    for group in groups.values():
        change = None
        if setups:
            before, last = setups[-1].points[-1].entry, group[-1].entry
            change = Pair(name="", first=before, second=last, margin=margin_between(before, last, factor=factor))
        setups.append(Setup(points=group, change=change))
    return setups


@dataclass(frozen=True, kw_only=True)
class History:
    """Points in the order of submission. `last_id` is set if there are earlier jobs: they are below it."""

    points: Sequence[Point]
    last_id: int | None


def characters_of(account: Account) -> list[str]:
    """Return the names of the characters of an account's completed jobs, the first MAX_CHARACTERS."""
    statement = NAMES.format(
        first=FIRST_NAME.format(more=""), next=FIRST_NAME.format(more="AND character > names.character")
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, {"account_id": account.pk, "limit": MAX_CHARACTERS})
        return [name for (name,) in cursor.fetchall() if is_visible(name)]


def latest_character(account: Account) -> str:
    """Return the character of the newest completed job with a result for one, empty if there is none."""
    newest = Job.objects.filter(pk__in=_newest(_completed(account), LATEST_JOBS)).order_by("-pk")
    newest = newest.filter(summary__mainActor__mean__isnull=False)
    return next(filter(is_visible, newest.values_list("character", flat=True)), "")


def history_of(account: Account, character: str, *, before: int | None, limit: int) -> History:
    """Return the newest `limit` completed jobs of a character, below the id `before` if given.

    Jobs without a result of their own, such as a comparison of actors, have no point.
    """
    jobs = _completed(account).filter(character=character).exclude(character="")
    if before is not None:
        jobs = jobs.filter(pk__lt=before)
    newest = list(_with_figures(_newest(jobs, limit + 1)))
    found = outlines_of(newest[:limit])
    points = [point for job in newest[:limit] if (point := _point(job, found.get(job.pk))) is not None]
    return History(points=points[::-1], last_id=newest[limit - 1].pk if len(newest) > limit else None)


def _completed(account: Account) -> QuerySet[Job]:
    return Job.objects.filter(account=account, status=Status.COMPLETED)


def _newest(jobs: QuerySet[Job], count: int) -> QuerySet[Job, Any]:
    """Return the ids of the newest jobs, for a query by id: they are found in an index without reading rows."""
    return jobs.order_by("-pk").values("pk")[:count]


def _with_figures(ids: QuerySet[Job, Any]) -> QuerySet[Job]:
    """Return the jobs with these ids, newest first, with the fields of a point."""
    build = ("build__simc_version", "build__wow_version", "build__commit")
    jobs = Job.objects.filter(pk__in=ids).select_related("build").only("build_id", *TITLED, *build)
    figures = RawSQL(FIGURES, [], output_field=JSONField())  # noqa: S611 - a constant
    return jobs.annotate(figures=figures).order_by("-pk")


def _point(job: Job, outline: Outline | None) -> Point | None:
    """Return the point of a job, None if its result has no damage per second of the character.

    Its class and specialization are not part of the outline, because the character has them.
    """
    metric, figures, equipment = vars(job)["figures"] or (None, None, "")
    if metric != "dps" or figures is None:
        return None
    fight = replace(outline, class_name="", specialization="") if outline else NO_OUTLINE
    return Point(job=job, entry=listed([figures], first=0)[0], equipment=equipment, outline=fight)
