"""Which jobs are compared."""

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from billing.models import Account
from clients.accounts import default_client
from jobs.errors import NotFound
from jobs.models import Job
from jobs.results.comparison import selection
from jobs.results.comparison.selection import CannotCompare, Problem
from simservice.ids import new_token, next_id
from tests.factories import make_account, make_job

TOKEN = "Abcdefghij_-klmnopqr01"
HOSTS = {"sims.example.org"}


@pytest.mark.django_db
def test_jobs_keep_the_order_of_their_ids(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    client = default_client(make_account())
    jobs = [make_job(client) for _ in range(4)][::-1]
    with django_assert_num_queries(1):
        assert selection.own_jobs(client.account, [str(job.pk) for job in jobs]) == jobs
    with django_assert_num_queries(1):
        assert selection.shared_jobs([job.share_token for job in jobs]) == jobs


@pytest.mark.django_db
def test_unknown_jobs_and_those_of_others_are_not_found() -> None:
    own, other = make_job(), make_job()
    for wrong in (str(other.pk), str(next_id()), "x", "", "1" * 5000):
        with pytest.raises(NotFound):
            selection.own_jobs(own.account, [str(own.pk), wrong])
    with pytest.raises(NotFound):
        selection.shared_jobs([own.share_token, new_token()])


def test_too_many_and_repeated_jobs_are_refused_without_a_query() -> None:
    for names, problem in ((list("abcde"), Problem.TOO_MANY), (["a", "b", "a"], Problem.REPEATED)):
        with pytest.raises(CannotCompare) as refused:
            selection.shared_jobs(names)
        assert refused.value.problem == problem
        with pytest.raises(CannotCompare):
            selection.own_jobs(Account(), names)


@pytest.mark.django_db
def test_links_that_have_all_expired_are_not_found(settings: Settings) -> None:
    old, new = make_job(), make_job()
    expired = timezone.now() - timedelta(days=settings.RETENTION_DAYS, seconds=1)
    Job.objects.filter(pk=old.pk).update(created_at=expired)
    assert len(selection.shared_jobs([old.share_token, new.share_token])) == 2
    with pytest.raises(NotFound):
        selection.shared_jobs([old.share_token])


@pytest.mark.parametrize(
    "text",
    [
        TOKEN,
        f"  {TOKEN}\n",
        f"https://sims.example.org/share/{TOKEN}",
        f"http://sims.example.org/share/{TOKEN}/?q=a#results",
        f"sims.example.org/share/{TOKEN}",
    ],
)
def test_a_share_link_contains_a_token(text: str) -> None:
    assert selection.token_of(text, hosts=HOSTS) == TOKEN


@pytest.mark.parametrize(
    "text",
    [
        "",
        TOKEN[1:],
        f"{TOKEN}x",
        f"https://elsewhere.example.org/share/{TOKEN}",
        f"https://sims.example.org@elsewhere.example.org/share/{TOKEN}",
        f"https://sims.example.org/artifacts/{TOKEN}",
        f"https://sims.example.org/share/{TOKEN}/more",
        f"javascript://sims.example.org/share/{TOKEN}",
        f"/share/{TOKEN}",
        "https://[sims/share/x",
        "x" * 100_000,
        "\x00",
    ],
)
def test_other_texts_are_not_share_links(text: str) -> None:
    with pytest.raises(CannotCompare) as refused:
        selection.token_of(text, hosts=HOSTS)
    assert refused.value.problem == Problem.NOT_A_LINK
