"""The picture of a job for link previews (docs/reference/api.md#picture)."""

import io
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client as HttpClient
from django.utils import timezone
from PIL import Image, ImageColor
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.public.card import view
from dashboard.public.card.content import Card, card_of
from dashboard.public.card.drawing import (
    CLASSES,
    GROUND,
    MAX_CHARACTERS,
    SIZE,
    clean,
    draw,
    fit,
    font,
    paint,
    wrap,
)
from jobs.models import Job
from jobs.results.details import Actor, Details, Dps, Fight
from jobs.results.verdicts import number, percent
from tests.dashboard.job_pages import share_html
from tests.dashboard.summaries import (
    NAMES,
    figures,
    make_completed_job,
    make_failed_job,
    make_stopped_job,
    summary,
)
from tests.factories import make_job, make_running_job

DETAILS = Details(
    fight=Fight(style="Patchwerk", targets=1, length=300.0),
    actors=(Actor(class_name="Mage", specialization="Frost Mage", dps=Dps(median=104.0)),),
)
ZALGO = "e" + "\u0301\u0489" * 200


def card(job_summary: dict[str, Any] | None, details: Details | None = None, **fields: Any) -> Card:
    """Return the content of the picture of a completed job."""
    values = {"created_at": timezone.now(), "status": "completed", "character": "Frosty", **fields}
    return card_of(Job(id=1, summary=job_summary, **values), details)


def get(job: Job, **headers: str) -> Any:
    return HttpClient().get(f"/share/{job.share_token}/card.png", headers=headers)


def test_a_ranking_has_the_best_variants_with_gains() -> None:
    made = card(summary("a", "b", "c", "d"), DETAILS)
    assert made.headline is not None
    assert (made.headline.caption, made.headline.number) == ("Best variant", "120")
    assert (made.headline.difference, made.verdict) == ("+20 % ± 2", "")
    assert [(row.name, row.value, row.kind) for row in made.bars] == [
        ("d", "+20 %", "gain"),
        ("c", "+15 %", "gain"),
        ("b", "+10 %", "gain"),
    ]
    assert [row.width for row in made.bars] == [1.0, 0.75, 0.5]
    assert made.notes == ["4 variants"]


def test_the_details_name_the_fight_and_the_class() -> None:
    made = card(summary(), DETAILS)
    assert (made.fight, made.specialization) == ("Patchwerk · 1 target · 5:00", "Frost Mage")
    assert made.spread is not None
    assert (made.spread.low, made.spread.median, made.spread.high) == (80.0, 104.0, 120.0)


@pytest.mark.parametrize("name", ["Unknown", "unknown mage"])
def test_an_unknown_specialization_is_left_out(name: str) -> None:
    assert card(summary(), Details(fight=Fight(), actors=(Actor(specialization=name),))).specialization == ""


def test_a_specialization_is_named_with_its_class() -> None:
    actor = Actor(specialization="Frost", class_name="mage")
    assert card(summary(), Details(fight=Fight(), actors=(actor,))).specialization == "Frost Mage"


def test_a_difference_within_the_margin_of_error_is_grey() -> None:
    profilesets = {"count": 1, "results": [figures("a", 101.0)]}
    made = card(summary(profilesets=profilesets))
    assert made.headline is not None
    assert (made.headline.caption, made.headline.difference, made.headline.explanation) == ("", "", "Baseline")
    assert made.verdict == "No variant is clearly better than your baseline"
    assert made.bars[0].kind == "even"


def test_a_worse_variant_is_red() -> None:
    made = card(summary(profilesets={"count": 1, "results": [figures("a", 90.0)]}))
    assert made.headline is not None
    assert (made.headline.explanation, made.headline.number) == ("Baseline", "100")
    assert [(bar.value, bar.kind) for bar in made.bars] == [("\N{MINUS SIGN}10 %", "loss")]


def test_tied_variants_are_no_best_variant() -> None:
    made = card(summary(profilesets={"count": 2, "results": [figures("a", 120.0), figures("b", 119.5)]}))
    assert made.headline is not None
    assert made.verdict == "2 variants are tied for best, about +20 %"
    assert made.headline.caption == ""


def test_a_title_is_not_repeated_as_the_class() -> None:
    actor = Actor(specialization="Frost", class_name="mage")
    made = card(summary(), Details(fight=Fight(), actors=(actor,)), character="Frost Mage")
    assert (made.title, made.specialization) == ("Frost Mage", "")


def test_a_baseline_of_zero_has_no_differences() -> None:
    made = card(summary("a", mean=0.0))
    assert made.headline is not None
    assert made.headline.difference == ""
    assert [row.value for row in made.bars] == ["5"]


def test_several_actors_are_ranked_by_their_means() -> None:
    actors = {"count": 4, "results": [figures(name, mean) for name, mean in (("a", 1.0), ("b", 4.0), ("c", 2.0))]}
    made = card({"metric": "raid_dps", "mainActor": None, "multiStage": {}, "actors": actors})
    assert [(row.name, row.value) for row in made.bars] == [("b", "4"), ("c", "2"), ("a", "1")]
    assert made.headline is not None
    assert made.headline.unit == "Raid DPS"
    assert made.notes == ["4 actors"]


@pytest.mark.parametrize("status", ["queued", "running", "failed", "cancelled"])
def test_a_job_without_a_result_says_so(status: str) -> None:
    made = card(None, status=status)
    assert made.headline is None
    assert made.status
    assert made.reason in ("There is no result yet.", "This job has no results.")


def test_the_summary_of_a_failed_job_is_not_shown() -> None:
    assert card(summary(), status="failed", error_code="simulation_error").headline is None


@pytest.mark.django_db
def test_an_early_stop_is_noted() -> None:
    assert "Ended early" in card_of(make_stopped_job("timed_out", "max_credits_reached"), None).notes


@pytest.mark.parametrize(
    ("value", "text"),
    [(31656.4, "31,656"), (-5.0, "\N{MINUS SIGN}5"), (1e300, "1e+300"), (0.0, "0")],
)
def test_numbers_stay_short(value: float, text: str) -> None:
    assert number(value) == text
    assert len(percent(value)) < 14


@pytest.mark.parametrize(
    "text", [*NAMES, ZALGO, "\ud800", "\x00", "漢字" * 500, "שלום " * 100, "", "e\n\te", "👩‍👩‍👧"]
)
def test_any_text_fits(text: str) -> None:
    face, shown = font(28), clean(text)
    assert len(shown) <= MAX_CHARACTERS
    assert face.getlength(fit(shown, face, 300)) <= 300
    lines = wrap(shown, face, 300)
    assert len(lines) <= 2
    assert all(face.getlength(line) <= 300 for line in lines)
    face.getmask(shown or " ")


def test_invisible_characters_are_left_out() -> None:
    assert clean("a\u202eb\x00\u200b\ud800 c") == "ab c"


def test_stacked_accents_do_not_leave_their_line() -> None:
    assert clean(ZALGO) == "\u00e9"


def test_a_long_title_breaks_between_words() -> None:
    assert wrap("one two three", font(28), 110) == ["one two", "three"]
    assert wrap("W" * 300, font(28), 100)[1].endswith("…")


def ranking_picture(name: str, mean: float = 200.0) -> Image.Image:
    """Return the picture of a job with one profileset."""
    return paint(card(summary(profilesets={"count": 1, "results": [figures(name, mean)]})))


@pytest.mark.parametrize(
    "name",
    [*NAMES, ZALGO, "漢字" * 150, "\u05d0" * 300, "a: b", ": "],
    ids="html override invisible wide script template accents boxes rtl prefix colon".split(),
)
def test_a_hostile_name_changes_only_its_line(name: str) -> None:
    plain, hostile = ranking_picture("a"), ranking_picture(name)
    for box in ((0, 0, 1200, 515), (0, 515, 570, 630), (1020, 515, 1200, 630)):
        assert hostile.crop(box).tobytes() == plain.crop(box).tobytes(), box


@pytest.mark.parametrize(
    "made", [card(None), card(summary("a")), card(summary(), DETAILS)], ids=["none", "ranking", "one"]
)
def test_a_picture_has_the_size_that_previews_expect(made: Card) -> None:
    png = draw(made)
    assert Image.open(io.BytesIO(png)).size == SIZE == (1200, 630)
    assert len(png) < 200_000


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_the_edge_has_the_colour_of_the_class(name: str) -> None:
    made = paint(card(summary(), Details(fight=Fight(), actors=(Actor(class_name=name.title()),))))
    assert made.getpixel((5, 300)) == ImageColor.getrgb(CLASSES[name])


def test_huge_numbers_fit_their_column() -> None:
    between = ranking_picture("a", 1e300).crop((510, 300, 530, 600))
    assert between.getcolors() == [(20 * 300, ImageColor.getrgb(GROUND))]


@pytest.mark.django_db
def test_the_picture_of_an_ended_job_is_cached() -> None:
    job = make_completed_job()
    response = get(job)
    assert (response.status_code, response.headers["Content-Type"]) == (200, "image/png")
    assert response.headers["Cache-Control"] == "public, max-age=86400"
    assert response.headers["X-Robots-Tag"] == "noindex"
    again = get(job, **{"If-None-Match": f"W/{response.headers['ETag']}"})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["ETag"] == response.headers["ETag"]


@pytest.mark.django_db
def test_a_new_title_makes_a_new_picture() -> None:
    job = make_completed_job()
    tag = get(job).headers["ETag"]
    Job.objects.filter(pk=job.pk).update(given_title="Mine")
    assert get(job, **{"If-None-Match": tag}).status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize("make", [make_job, make_running_job], ids=["waits", "runs"])
def test_the_picture_of_an_unfinished_job_is_not_cached(make: Any) -> None:
    response = get(make())
    assert (response.status_code, response.headers["Cache-Control"]) == (200, "no-store")


@pytest.mark.django_db
def test_no_cache_keeps_a_picture_beyond_the_retention(settings: Settings) -> None:
    job = make_failed_job()
    old = timezone.now() - timedelta(days=settings.RETENTION_DAYS, seconds=-60)
    Job.objects.filter(pk=job.pk).update(created_at=old)
    assert get(job).headers["Cache-Control"] in ("public, max-age=59", "public, max-age=58")
    Job.objects.filter(pk=job.pk).update(created_at=old - timedelta(seconds=61))
    assert get(job).status_code == 404


@pytest.mark.django_db
@pytest.mark.parametrize("token", ["x" * 22, "unknown", "x" * 5000])
def test_an_unknown_link_has_no_picture(token: str) -> None:
    response = HttpClient().get(f"/share/{token}/card.png")
    assert (response.status_code, response.headers["Cache-Control"]) == (404, "no-store")


@pytest.mark.django_db
def test_a_second_picture_waits_and_is_then_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_completed_job()
    monkeypatch.setattr(view, "WAIT_SECONDS", 0.05)
    with view._drawing:
        response = get(job)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "2")
    assert response.headers["Cache-Control"] == "no-store"
    assert get(job).status_code == 200


@pytest.mark.django_db
def test_a_short_wait_is_not_refused() -> None:
    job = make_completed_job()
    view._drawing.acquire()
    threading.Timer(0.1, view._drawing.release).start()
    assert get(job).status_code == 200


@pytest.mark.django_db
def test_a_failed_drawing_lets_the_next_one_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError), view._one_at_a_time():
        _ = 1 / 0
    assert get(make_completed_job()).status_code == 200


@pytest.mark.django_db
def test_a_head_request_gets_the_length_of_the_picture() -> None:
    job = make_completed_job()
    response = HttpClient().head(f"/share/{job.share_token}/card.png")
    assert (response.status_code, response.headers["Content-Type"], response.content) == (200, "image/png", b"")
    assert response.headers["Content-Length"] == str(len(get(job).content))


@pytest.mark.django_db
def test_a_picture_needs_few_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    job = make_completed_job(summary(*NAMES))
    # Two reads, between the two ends of a savepoint.
    with django_assert_num_queries(4):
        get(job)


@pytest.mark.django_db
def test_the_share_page_names_its_picture(settings: Settings) -> None:
    settings.PUBLIC_BASE_URL = "https://sims.example.org"
    job = make_completed_job()
    address = f"https://sims.example.org/share/{job.share_token}/card.png"
    content = share_html(job)
    assert f'<meta property="og:image" content="{address}">' in content
    assert '<meta name="twitter:card" content="summary_large_image">' in content


@pytest.mark.django_db
def test_a_picture_reveals_nothing_about_the_account() -> None:
    job = make_completed_job(metadata={"title": "a secret"})
    made = repr(card_of(job, None))
    assert "a secret" not in made
    assert job.account.name not in made
