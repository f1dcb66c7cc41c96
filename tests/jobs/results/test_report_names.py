"""The name in the report is the name of the job, wherever it is shown."""

from pathlib import Path

import pytest
from django.test import Client as Browser

from clients.models import ApiKey
from jobs.api.links import path_to
from jobs.results import history
from tests.conftest import Api
from tests.jobs.simulators import LEAVE_REPORT, RUN_UNTIL_INTERRUPTED, make_stand_in, run

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = 'mage="export_2026"\nlevel=80\n'


def test_lists_history_and_share_page_show_the_reports_name(
    tmp_path: Path, api: Api, key: tuple[ApiKey, str], client: Browser
) -> None:
    make_stand_in(tmp_path, LEAVE_REPORT.replace("'A'", "'Hoarfrostine'"))
    job = run(key[0].client, text=TEXT, character="export_2026")
    assert [found["title"] for found in api.get("jobs").json()["jobs"]] == ["Hoarfrostine"]
    assert api.get(f"jobs/{job.pk}").json()["title"] == "Hoarfrostine"
    assert history.characters_of(job.account) == [history.latest_character(job.account)] == ["Hoarfrostine"]
    page = client.get(path_to("share", job.share_token)).content.decode()
    assert "Hoarfrostine" in page
    assert "export_2026" not in page


def test_a_stopped_job_has_the_name_in_its_report(tmp_path: Path, key: tuple[ApiKey, str]) -> None:
    make_stand_in(tmp_path, RUN_UNTIL_INTERRUPTED.replace("'A'", "'Hoarfrostine'"))
    job = run(key[0].client, text=TEXT, character="export_2026", ceiling_credits=32, ceiling_runtime_seconds=1)
    assert (job.status, job.character) == ("timed_out", "Hoarfrostine")
