"""Results of a running job on its page."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from clients.accounts import default_client
from clients.models import Membership
from dashboard.jobs import preview
from dashboard.jobs.preview import Live
from jobs.lifecycle import job_moves
from jobs.live.preview import Figures, Preview, RankedProfileset
from jobs.live.progress import Progress, Publisher, StageProgress, progress_of
from jobs.models import Job
from jobs.results import labels
from simservice.redis.client import redis
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


def publish(job: Job, *, percent: float = 0, variants: int = 0, widening: float = 1.0, **fields: Any) -> None:
    """Publish a preview of a job, by default of two of nine profilesets."""
    known = {"seconds_left": 170, "baseline": BASELINE, "finished": 2, "count": 9, "best": entries(1100, 950)}
    preview = Preview(**{**known, **fields})
    progress = Progress(percent=percent, stage=None, variants=variants, widening=widening)
    Publisher(job, preview=lambda: preview).publish(progress)


def live_of(job: Job) -> Live:
    found = preview.live_of(job, progress_of(job))
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
        "1 set 1100 1,100 ± 5 +10.0 % ± 0.8",
        "Baseline Baseline 1,000 ± 5 \N{EN DASH} 2 set 950 950 ± 5 \N{MINUS SIGN}5.0 % ± 0.8",
        "1 better, 0 within the margin of error, 1 worse",
    ):
        assert expected in text, expected


def test_without_a_preview_nothing_is_claimed(owner: Membership, job: Job) -> None:
    text = text_of(refresh_job(owner, job))
    assert "No results yet" in text
    assert " left" not in text
    assert "of 0 finished" not in text


def test_one_character_is_no_baseline(owner: Membership, job: Job) -> None:
    publish(job, count=0, finished=0, best=[])
    text = text_of(refresh_job(owner, job))
    assert "Character 1,000 DPS ± 5" in text
    assert "about 3 minutes left" in text
    assert "Baseline" not in text


@pytest.mark.parametrize(("finished", "rows"), [(0, 0), (1, 2), (20, 21), (40, 21)])
def test_the_ranking_lists_the_best_variants_and_the_baseline(job: Job, finished: int, rows: int) -> None:
    publish(job, finished=finished, count=40, best=entries(*range(1100, 1100 - finished, -1)))
    ranking = live_of(job).ranking
    assert len(ranking.rows if ranking else []) == rows


@pytest.mark.parametrize("multi_stage", [False, True])
def test_rows_say_their_stage_if_there_are_stages(owner: Membership, job: Job, *, multi_stage: bool) -> None:
    Job.objects.filter(pk=job.pk).update(multi_stage=multi_stage)
    publish(job)
    assert ('<td class="stage">1</td>' in refresh_job(owner, job).content.decode()) == multi_stage


def test_rows_do_not_move_as_variants_finish(owner: Membership, job: Job) -> None:
    captions = set()
    for best in (entries(1100), entries(1100, 950), entries(90000, 1100, 950)):
        publish(job, finished=len(best), best=best)
        page = refresh_job(owner, job).content.decode()
        captions.add(page.partition("<caption>")[2].partition("</caption>")[0])
    assert len(captions) == 1
    assert captions != {""}


def test_rows_are_those_of_the_result(job: Job) -> None:
    job.character = "Frosty"
    publish(job, best=entries(1200, 1007, 800))
    ranking = live_of(job).ranking
    assert ranking is not None
    assert [(row.place, row.name, row.kind) for row in ranking.rows] == [
        (1, "set 1200", "gain"),
        (2, "set 1007", "even"),
        (None, "Frosty", ""),
        (3, "set 800", "loss"),
    ]


def test_the_verdict_so_far_is_shown(owner: Membership, job: Job) -> None:
    publish(job, best=entries(1200, 1007, 800))
    assert "Best: set 1200 , +20.0 % ± 0.9 so far" in text_of(refresh_job(owner, job))
    publish(job, best=entries(1001, 1000))
    text = text_of(refresh_job(owner, job))
    assert "No variant is clearly better than your baseline so far" in text


def test_variants_of_an_earlier_stage_can_still_be_the_best(job: Job) -> None:
    later, earlier = entries(1101, 1100)
    publish(job, best=[replace(later, stage=2), earlier])
    verdict = live_of(job).verdict
    assert verdict is not None
    assert verdict.text == "2 variants are tied for best, about +10.1 % so far"


def test_the_margin_considers_all_variants(job: Job) -> None:
    for count, kind in ((2, "gain"), (2000, "even")):
        publish(job, finished=count, count=count, best=entries(1012, 1000))
        ranking = live_of(job).ranking
        assert ranking is not None
        assert ranking.rows[0].kind == kind


def test_the_margin_considers_variants_of_earlier_stages(job: Job) -> None:
    kinds = []
    for variants in (12, 2000):
        publish(job, finished=2, count=12, variants=variants, best=entries(1012, 1000))
        ranking = live_of(job).ranking
        assert ranking is not None
        kinds.append(ranking.rows[0].kind)
    assert kinds == ["gain", "even"]


def test_the_margin_considers_how_replicates_differ(job: Job) -> None:
    for widening, text in ((1.0, "+5.0 % ± 0.8 so far"), (3.0, "+5 % ± 2 so far")):
        publish(job, widening=widening, best=entries(1050, 1000))
        verdict = live_of(job).verdict
        assert verdict is not None
        assert verdict.text.endswith(text)


def test_more_variants_than_listed_may_be_tied(job: Job) -> None:
    publish(job, finished=60, count=60, best=entries(*(1100 - number / 10 for number in range(50))))
    verdict = live_of(job).verdict
    assert verdict is not None
    assert verdict.text.startswith("At least 20 variants are tied for best")


def test_progress_of_an_earlier_version_is_shown(owner: Membership, job: Job) -> None:
    publish(job, percent=40)
    key = f"progress:{job.pk}:{job.attempt}"
    fields = json.loads(str(redis().get(key)))
    redis().set(key, json.dumps({name: fields[name] for name in ("percent", "stage")}))
    assert "+10.0 % ± 0.8" in text_of(refresh_job(owner, job))


def test_without_a_baseline_there_is_no_ranking(owner: Membership, job: Job) -> None:
    publish(job, baseline=None)
    assert live_of(job).ranking is None
    assert "The ranking appears when the first results are complete." in text_of(refresh_job(owner, job))


@pytest.mark.parametrize("mean", [0.0, -200.0])
def test_a_baseline_that_is_not_positive_is_shown(owner: Membership, job: Job, mean: float) -> None:
    publish(job, baseline=Figures(mean=mean, error=1), best=entries(-100.0))
    assert "Ranking so far" in text_of(refresh_job(owner, job))


def test_without_figures_finished_variants_are_counted(owner: Membership, job: Job) -> None:
    publish(job, baseline=None, best=[])
    text = text_of(refresh_job(owner, job))
    assert "2 of 9 finished" in text
    assert "The ranking appears when the first results are complete." in text


def test_hostile_names_are_escaped(owner: Membership, job: Job) -> None:
    publish(job, best=entries(*range(1100, 1100 - len(NAMES), -1), names=NAMES))
    content = refresh_job(owner, job).content.decode()
    assert "<img src=x" not in content
    assert "<script>alert" not in content
    assert content.count('<th scope="row"><bdi') == len(NAMES) + 1


def test_a_preview_needs_no_query(owner: Membership, job: Job) -> None:
    http = browser_of(owner)
    count_queries(http, job_path(job), HX_Request="true")
    before = count_queries(http, job_path(job), HX_Request="true")
    publish(job, best=entries(*range(1100, 1050, -1)))
    assert count_queries(http, job_path(job), HX_Request="true") == before == 5


def test_other_accounts_see_nothing(job: Job) -> None:
    stranger = make_member()
    for path in (job_path(job), job_path(job).replace(str(job.account), str(stranger.account))):
        assert browser_of(stranger).get(path).status_code == 404


def test_the_share_page_shows_the_same(job: Job) -> None:
    publish(job, percent=40)
    text = text_of(browser_of(make_member()).get(f"/share/{job.share_token}"))
    for expected in ("40 % · about 3 minutes left", "Ranking so far", "1 set 1100"):
        assert expected in text, expected


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
