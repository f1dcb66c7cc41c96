"""Results of a running job on its page."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from clients.accounts import default_client
from clients.models import Membership
from dashboard.jobs import preview
from dashboard.jobs.preview import Live
from jobs.lifecycle import job_moves
from jobs.live.preview import Figures, Preview, RankedProfileset
from jobs.live.progress import Progress, Publisher, StageProgress
from jobs.models import Job
from jobs.results import labels
from tests.dashboard.browsing import browser_of, count_queries, text_of
from tests.dashboard.job_pages import job_path, refresh_job
from tests.dashboard.summaries import NAMES
from tests.factories import make_member, make_running_job

pytestmark = pytest.mark.django_db

BASELINE = Figures(mean=1000, error=5)


def entries(*means: float, names: Sequence[str] = ()) -> list[RankedProfileset]:
    named = names or [f"set {mean:.0f}" for mean in means]
    return [
        RankedProfileset(name=name, mean=mean, error=5, stage=1) for name, mean in zip(named, means, strict=True)
    ]


def publish(job: Job, *, percent: float = 0, **fields: Any) -> None:
    """Publish a preview of a job, by default of two of nine profilesets."""
    known = {"seconds_left": 170, "baseline": BASELINE, "finished": 2, "count": 9, "best": entries(1100, 950)}
    preview = Preview(**{**known, **fields})
    Publisher(job, preview=lambda: preview).publish(Progress(percent=percent, stage=None))


def live_of(job: Job) -> Live:
    found = preview.live_of(job)
    assert found is not None
    return found


@pytest.fixture
def job(owner: Membership) -> Job:
    return make_running_job(client=default_client(owner.account))


def test_the_page_shows_what_is_known(owner: Membership, job: Job) -> None:
    publish(job, percent=40)
    text = text_of(refresh_job(owner, job))
    for expected in (
        "40 % · about 3 minutes left",
        "1,000 DPS ± 5",
        "2 of 9 finished",
        "1 set 1100 1,100 ± 5 +10.00 %",
        "Baseline 1,000 ± 5 2 set 950 950 ± 5 \N{MINUS SIGN}5.00 %",
    ):
        assert expected in text, expected


def test_without_a_preview_nothing_is_claimed(owner: Membership, job: Job) -> None:
    text = text_of(refresh_job(owner, job))
    assert "Baseline Not known yet" in text
    assert " left" not in text
    assert "of 0 finished" not in text


def test_the_ranking_reserves_rows_for_the_first_results(job: Job) -> None:
    counts = []
    for finished in (0, 1, 5, 9, 20):
        publish(job, finished=finished, count=40, best=entries(*range(1100, 1100 - finished, -1)))
        found = live_of(job)
        counts.append(len(found.rows) + len(found.reserved))
    assert counts == [8, 8, 8, 10, 21]
    publish(job, count=2)
    assert len(live_of(job).reserved) == 0


def test_differences_within_the_margin_of_error_say_so(owner: Membership, job: Job) -> None:
    publish(job, best=entries(1007.1, 1007.0))
    assert [row.significant for row in live_of(job).rows if row.rank] == [True, False]
    assert text_of(refresh_job(owner, job)).count("within the margin of error)") == 1


def test_bars_start_at_the_baseline(job: Job) -> None:
    publish(job, best=entries(1200, 1100, 800))
    found = live_of(job)
    assert found.zero == "50.00%"
    bars = [(row.start, row.width) for row in found.rows if row.rank]
    assert bars == [("50.00%", "50.00%"), ("50.00%", "25.00%"), ("0.00%", "50.00%")]


def test_without_a_baseline_there_are_no_differences(job: Job) -> None:
    publish(job, baseline=None)
    assert [(row.rank, row.difference) for row in live_of(job).rows] == [(1, None), (2, None)]


@pytest.mark.parametrize(
    ("mean", "expected"), [(0.0, [None, None]), (-200.0, [pytest.approx(50.0), None])], ids=str
)
def test_differences_from_a_baseline_that_is_not_positive(job: Job, mean: float, expected: list[Any]) -> None:
    publish(job, baseline=Figures(mean=mean, error=1), best=entries(-100.0) if mean else entries(5.0))
    assert [row.difference for row in live_of(job).rows] == expected


def test_means_that_are_not_printed_are_explained(owner: Membership, job: Job) -> None:
    publish(job, baseline=None, best=[])
    assert "The simulator does not print means for this profile while it runs." in text_of(refresh_job(owner, job))


def test_hostile_names_are_escaped(owner: Membership, job: Job) -> None:
    publish(job, best=entries(*range(1100, 1100 - len(NAMES), -1), names=NAMES))
    content = refresh_job(owner, job).content.decode()
    assert "<img src=x" not in content
    assert "<script>alert" not in content
    assert content.count('<bdi class="clamped">') == 1 + len(NAMES) + 1


def test_a_preview_needs_no_query(owner: Membership, job: Job) -> None:
    http = browser_of(owner)
    count_queries(http, job_path(job), HX_Request="true")
    before = count_queries(http, job_path(job), HX_Request="true")
    publish(job, best=entries(*range(1100, 1050, -1)))
    assert count_queries(http, job_path(job), HX_Request="true") == before == 7


def test_other_accounts_see_nothing(job: Job) -> None:
    stranger = make_member()
    for path in (job_path(job), job_path(job).replace(str(job.account), str(stranger.account))):
        assert browser_of(stranger).get(path).status_code == 404


def test_the_share_page_stays_still(job: Job) -> None:
    publish(job, percent=40)
    response = browser_of(make_member()).get(f"/share/{job.share_token}")
    content = response.content.decode()
    assert f'<a href="/share/{job.share_token}">Reload the page</a>' in content
    assert not re.search(r"hx-get|Results so far|minutes left|set 1100", content)


@pytest.mark.parametrize(
    ("percent", "stage", "expected"),
    [
        (0, None, "Running"),
        (24.9, None, "Running"),
        (25, None, "25 % done"),
        (49.9, None, "25 % done"),
        (99.9, None, "75 % done"),
        (60, StageProgress(current=2, total=3, label="intermediate", percent=1), "Stage 2 of 3, 50 % done"),
    ],
)
def test_screen_readers_hear_only_milestones(percent: float, stage: StageProgress | None, expected: str) -> None:
    assert preview.milestone("Running", Progress(percent=percent, stage=stage), is_running=True) == expected


def test_screen_readers_hear_the_end(owner: Membership, job: Job) -> None:
    publish(job, percent=60)
    assert '<p id="milestone" class="visually-hidden" role="status">50 % done</p>' in str(
        refresh_job(owner, job).content
    )
    assert job_moves.finish(job, job_moves.CANCELLED)
    assert 'role="status">Cancelled</p>' in str(refresh_job(owner, job).content)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (None, ""),
        (0, "a few seconds left"),
        (10, "about 10 seconds left"),
        (50, "about 50 seconds left"),
        (51, "about 1 minute left"),
        (60, "about 1 minute left"),
        (170, "about 3 minutes left"),
        (3540, "about 59 minutes left"),
        (3600, "about 1 hour left"),
        (5000, "about 1 hour 20 minutes left"),
        (86400, "about 24 hours left"),
    ],
)
def test_the_time_left_is_rounded(seconds: int | None, expected: str) -> None:
    assert labels.time_left(seconds) == expected
