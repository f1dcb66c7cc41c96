"""The jobs of a comparison, from the ids or links in its address."""

import re
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from django.db.models import QuerySet

from billing.models import Account
from jobs.artifacts import retention
from jobs.errors import JobsError, NotFound
from jobs.models import Job
from simservice.ids import TokenConverter, parse_id

MAX_JOBS = 4
MAX_LINK_LENGTH = 1000
_TOKEN = re.compile(TokenConverter.regex)
_SHARE_PATH = re.compile(f"/share/({TokenConverter.regex})/?")


class Problem(StrEnum):
    """Why a choice of jobs cannot be compared."""

    TOO_MANY = "too_many_jobs"
    REPEATED = "repeated_job"
    NOT_A_LINK = "not_a_share_link"


class CannotCompare(JobsError):
    """The chosen jobs cannot be compared."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


def own_jobs(account: Account, ids: Sequence[str]) -> list[Job]:
    """Return the account's jobs with these ids, with their builds. At most one query.

    Raises CannotCompare, or NotFound if an id is malformed, unknown, or that of another account's job.
    """
    numbers = [parse_id(each) for each in _distinct(ids)]
    known = [number for number in numbers if number is not None]
    jobs = _with_builds().filter(account=account, pk__in=known)
    return _in_order(numbers, {job.pk: job for job in jobs})


def shared_jobs(tokens: Sequence[str]) -> list[Job]:
    """Return the jobs of share links, with their builds and accounts. At most one query.

    Raises CannotCompare, or NotFound if a token is unknown or the retention of all jobs has ended.
    """
    jobs = _with_builds().select_related("account").filter(share_token__in=_distinct(tokens))
    found = _in_order(tokens, {job.share_token: job for job in jobs})
    if found and not any(map(retention.is_kept, found)):
        raise NotFound
    return found


def token_of(text: str, *, hosts: Collection[str]) -> str:
    """Return the token of a share link on one of these hosts, or the token itself. Raises CannotCompare."""
    text = text.strip()[:MAX_LINK_LENGTH]
    if _TOKEN.fullmatch(text):
        return text
    try:
        link = urlsplit(text if "://" in text else f"//{text}")
    except ValueError:
        raise CannotCompare(Problem.NOT_A_LINK) from None
    path = _SHARE_PATH.fullmatch(link.path)
    if path is None or link.netloc not in hosts or link.scheme not in ("", "http", "https"):
        raise CannotCompare(Problem.NOT_A_LINK)
    return path[1]


def _with_builds() -> QuerySet[Job]:
    """Return jobs with their builds, but without the builds' lists of files."""
    return Job.objects.select_related("build").defer("build__profiles", "build__includable")


def _distinct(names: Sequence[str]) -> Sequence[str]:
    """Return the names of jobs. Raises CannotCompare if a name is repeated or there are too many."""
    if len(names) > MAX_JOBS:
        raise CannotCompare(Problem.TOO_MANY)
    if len(set(names)) < len(names):
        raise CannotCompare(Problem.REPEATED)
    return names


def _in_order(names: Sequence[object], found: Mapping[Any, Job]) -> list[Job]:
    """Return the jobs in the order of their names. Raises NotFound if one is missing."""
    try:
        return [found[name] for name in names]
    except KeyError:
        raise NotFound from None
