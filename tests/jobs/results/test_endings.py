"""How jobs ended, in one statement."""

from typing import Any

import pytest

from jobs.models import Job
from jobs.results.endings import ending_of, missed_variants
from tests.dashboard.summaries import figures, summary

CANCELLED = "The job was cancelled while running. The simulation time used is billed."


def stopped(
    *names: str, missed: int = 0, status: str = "cancelled", code: str = "user_cancelled", **fields: Any
) -> Job:
    """Return a job that was stopped with results of some variants, without `missed` others."""
    partial = summary(*names) | {"partial": True}
    if missed:
        partial["not_reached"] = {"actors": 0, "profilesets": missed}
    return Job(**{"status": status, "error_code": code, "summary": partial, "percent": 14.2, **fields})


def said(job: Job, reason: str = "", credits_billed: int | None = None) -> tuple[str, str]:
    ending = ending_of(job, reason=reason, credits_billed=credits_billed)
    assert ending is not None
    return ending.headline, ending.reason


def test_a_stopped_job_says_how_far_it_came() -> None:
    job = stopped(*"abcdef", missed=54)
    reason = f"{CANCELLED} 54 profilesets were not simulated."
    assert said(job, reason, 320) == (
        "Stopped at 14 %: 6 of 60 variants simulated, 320 credits billed.",
        "The job was cancelled while running.",
    )
    assert missed_variants(job) == 54


def test_a_capped_job_keeps_the_name_of_its_limit() -> None:
    job = stopped("a", missed=1, status="timed_out", code="max_credits_reached", percent=80.0)
    reason = "The job reached its credit limit of 32 and was stopped. 1 profileset was not simulated."
    assert said(job, reason, 1) == (
        "Stopped at 80 %: 1 of 2 variants simulated, 1 credit billed.",
        "The job reached its credit limit of 32 and was stopped.",
    )


def test_a_later_stage_has_simulated_all() -> None:
    assert said(stopped("a", "b"))[0] == "Stopped at 14 %: all 2 variants simulated."
    assert missed_variants(stopped("a", "b")) == 0


def test_one_character_has_no_variants() -> None:
    assert said(stopped(), CANCELLED, 64)[0] == "Stopped at 14 %: 64 credits billed."


def test_missing_actors_are_counted() -> None:
    job = stopped()
    assert job.summary is not None
    job.summary |= {
        "mainActor": None,
        "actors": {"count": 2, "results": [figures("A", 1), figures("B", 2)]},
        "not_reached": {"actors": 1, "profilesets": 0},
    }
    assert said(job)[0] == "Stopped at 14 %: 2 of 3 actors simulated."
    assert missed_variants(job) == 0


def test_without_the_baseline_no_variant_can_be_added() -> None:
    job = stopped()
    assert job.summary is not None
    job.summary |= {"mainActor": None, "not_reached": {"actors": 1, "profilesets": 9}}
    assert missed_variants(job) == 0


def test_a_job_that_never_ran_says_only_why() -> None:
    job = Job(status="cancelled", error_code="user_cancelled", percent=0)
    reason = "The job was cancelled before it ran. Nothing is billed."
    assert said(job, reason, 0) == (reason, "")
    assert said(job) == ("Cancelled.", "")


@pytest.mark.parametrize(
    ("code", "corrected"), [("simulation_error", True), ("input_invalid", True), ("execution_failed", False)]
)
def test_a_failed_job_begins_with_the_reason(code: str, corrected: bool) -> None:  # noqa: FBT001
    job = Job(status="failed", error_code=code, percent=0, summary=summary("a"))
    ending = ending_of(job, reason="Line 3, level: it is not a number.")
    assert ending is not None
    assert (ending.headline, ending.reason) == ("Line 3, level: it is not a number.", "")
    assert (ending.has_result, ending.missed, ending.needs_correction) == (False, 0, corrected)


def test_running_out_of_credits_is_no_failure() -> None:
    job = stopped("a", missed=3, status="failed", code="insufficient_credits")
    assert said(job)[0] == "Stopped at 14 %: 1 of 4 variants simulated."


@pytest.mark.parametrize("status", ["pending", "queued", "starting", "running", "completed"])
def test_other_jobs_have_no_ending(status: str) -> None:
    assert ending_of(Job(status=status, percent=100), reason="") is None
