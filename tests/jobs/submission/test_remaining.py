"""The variants that a stopped job did not simulate."""

from typing import Any

import pytest
from django.utils import timezone

from jobs.enums import Channel, Priority, Status
from jobs.models import Job, JobRanking
from jobs.planning.input_text import bounds
from jobs.results import rankings
from jobs.submission import remaining
from jobs.submission.remaining import NotSeparable
from simc.profiles.analysis import Analysis, analyse
from simc.profiles.grammar import tokens
from simc.profiles.policy import Rules
from simc.reports import Profileset, Statistics
from tests.dashboard.summaries import figures
from tests.factories import make_running_job

BASE = 'mage="A"\n# A comment\nlevel=80\n$(gem)=7\n'
HOSTILE = (
    BASE
    + """profileset."Ring A"+=finger1=ring,id=1
profileset."ring a"+=finger1=ring,id=2
profileset."Ring  A"+=finger1=ring,id=3
profileset."Ring A"+=finger2=ring,id=$(gem)
fight_style=Patchwerk
profileset.w+=level=70 profileset.x=level=71
profileset.x+=level=72 "profileset.y z+=name=b c"
profileset."<b>\u202e'&"+=level=73
profileset.x#+=level=74
iterations=100
"""
)


def analysis_of(text: str) -> Analysis:
    return analyse(text, rules=Rules(), bounds=bounds())


def stopped(*simulated: str, missing: int, **fields: Any) -> Job:
    """Return a job that simulated some profilesets and missed a number of others; not stored."""
    actor = figures("A", 100.0)
    if simulated:
        results = [{**figures(name, 100.0), "stage": 1} for name in simulated]
        actor["profilesets"] = {"count": len(results), "results": results}
    summary = {"metric": "dps", "mainActor": actor, "not_reached": {"actors": 0, "profilesets": missing}}
    values: dict[str, Any] = {
        "status": Status.CANCELLED,
        "channel": "latest",
        "git_branch": "midnight",
        "summary": summary,
        "ceiling_queue_seconds": 60,
    }
    values |= {"created_at": timezone.now(), "priority": Priority.STANDARD}
    return Job(**{**values, **fields})


def test_exactly_the_missing_variants_remain() -> None:
    assert not analysis_of(HOSTILE).refused
    names = list(analysis_of(HOSTILE).profilesets)
    assert {"Ring A", "ring a", "Ring  A", "x", "x#", "y z"} <= set(names)
    for number in range(1, len(names)):
        job = stopped(*names[number:], missing=number)
        text = remaining.submission_of(job, HOSTILE).profile_text
        assert list(analysis_of(text).profilesets) == names[:number]
        before, after = ([token.text for token in tokens(each)] for each in (HOSTILE, text))
        assert [each for each in before if not each.startswith("profileset.")] == [
            each for each in after if not each.startswith("profileset.")
        ]


def test_lines_of_a_variant_keep_their_order_and_values() -> None:
    names = list(analysis_of(HOSTILE).profilesets)
    job = stopped(*[name for name in names if name != "Ring A"], missing=1)
    text = remaining.submission_of(job, HOSTILE).profile_text
    assert [token.text for token in tokens(text) if token.text.startswith("profileset.")] == [
        "profileset.Ring A+=finger1=ring,id=1",
        "profileset.Ring A+=finger2=ring,id=$(gem)",
    ]


def test_a_profile_with_a_byte_order_mark_stays_readable() -> None:
    text = "\ufeff" + 'mage="A"\nprofileset.a+=level=1\nprofileset.b+=level=2\n'
    found = analysis_of(remaining.submission_of(stopped("a", missing=1), text).profile_text)
    assert (found.main_actor, list(found.profilesets)) == ("A", ["b"])


def test_without_a_finished_variant_all_remain() -> None:
    text = 'mage="A"\nprofileset.a+=level=1\nprofileset.b+=level=2\n'
    found = analysis_of(remaining.submission_of(stopped(missing=2), text).profile_text)
    assert list(found.profilesets) == ["a", "b"]


def test_the_request_has_the_options_of_the_job() -> None:
    options = {"channel": "weekly", "multi_stage": True, "html": True, "csv": True, "json_version": 3}
    job = stopped(
        "a", missing=1, **options, priority=Priority.HIGH, max_credits=640, ceiling_credits=640,
        ceiling_runtime_seconds=20, metadata={"title": "Vault"}, wants_webhook=True,
    )  # fmt: skip
    submission = remaining.submission_of(job, 'mage="A"\nprofileset.a+=level=1\nprofileset.b+=level=2\n')
    assert (submission.channel, submission.git_branch, submission.priority) == (
        Channel.WEEKLY,
        "midnight",
        Priority.HIGH,
    )
    assert (submission.multi_stage, submission.html, submission.csv, submission.json_version) == (
        True,
        True,
        True,
        3,
    )
    assert (submission.max_credits, submission.max_runtime_seconds, submission.max_queue_seconds) == (640, None, 60)
    assert (submission.metadata, submission.webhook_events) == ({"title": "Vault"}, ("job.terminal",))
    assert submission.credentials is None


@pytest.mark.parametrize(
    ("text", "job", "expected"),
    [
        ("input=other.simc\nprofileset.a+=level=1\n", stopped(missing=1), remaining.INCLUDES),
        ('mage="A"\nprofileset.a+=level=1\n', stopped(missing=1, has_credentials=True), remaining.CREDENTIALS),
        # The profile has another number of variants without a result than the report says.
        ('mage="A"\nprofileset.a+=level=1\n', stopped("A", missing=2), remaining.UNCLEAR),
        ('mage="A"\nprofileset.a+=level=1\n', stopped("a", missing=0), remaining.UNCLEAR),
    ],
)
def test_variants_that_cannot_run_alone_are_explained(text: str, job: Job, expected: str) -> None:
    with pytest.raises(NotSeparable, match=expected.split(".", maxsplit=1)[0]):
        remaining.submission_of(job, text)


@pytest.mark.django_db
def test_the_list_of_a_large_result_names_all_that_were_simulated() -> None:
    names = [f"set {number}" for number in range(rankings.LISTED + 50)]
    text = 'mage="A"\n' + "".join(f'profileset."{name}"+=level={n}\n' for n, name in enumerate(names))
    job = make_running_job()
    job.status = Status.CANCELLED
    simulated = names[:-3]
    job.summary = stopped(*simulated[: rankings.LISTED], missing=3).summary
    assert job.summary is not None
    job.summary["mainActor"]["profilesets"]["count"] = len(simulated)
    with pytest.raises(NotSeparable):
        remaining.names_of(job, analysis_of(text).profilesets)
    values = Statistics(mean=1, mean_stddev=1, stddev=1, min=1, max=1)
    packed = rankings.packed([Profileset(name=name, statistics=values, stage=1) for name in simulated])
    JobRanking.objects.create(job=job, document=packed)
    assert remaining.names_of(job, analysis_of(text).profilesets) == names[-3:]
