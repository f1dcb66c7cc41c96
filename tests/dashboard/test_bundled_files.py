"""Pages of jobs that include bundled files."""

from pathlib import Path

import pytest

from jobs.execution import attempt
from jobs.models import Job
from tests.dashboard.browsing import browser_of, text_of
from tests.dashboard.job_forms import submit
from tests.factories import make_member
from tests.jobs.bundles import bundled_build
from tests.jobs.simulators import claim

pytestmark = pytest.mark.django_db(transaction=True)

FILES = {
    "apls/mage.simc": "actions=frostbolt\n",
    "apls/bad.simc": "level=80\ninput=deep.simc\n",
    "apls/deep.simc": "html=/tmp/x\n",
}


@pytest.mark.parametrize(
    ("included", "shown"),
    [
        ("mage.simc", "Completed"),
        ("apls/bad.simc", "apls/deep.simc, line 1, html=/tmp/x: it writes a file."),
    ],
)
def test_a_job_with_an_include_is_submitted_and_shown(tmp_path: Path, included: str, shown: str) -> None:
    bundled_build(tmp_path, FILES)
    owner = make_member()
    assert submit(owner, profile=f"mage=A\r\n{included}\r\niterations=50\r\n").status_code == 302
    job = Job.objects.get()
    attempt.execute(claim())
    for address in (f"/dashboard/{owner.account}/jobs/{job.pk}", f"/share/{job.share_token}"):
        assert shown in text_of(browser_of(owner).get(address))
