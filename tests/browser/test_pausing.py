"""A running job that is paused and resumed on its page."""

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import LARGE, PATIENCE_MS, SMALL, visiting
from tests.browser.site_data import ACCOUNT
from tests.stack import LONG, Stack

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(300)]


@pytest.mark.parametrize("width", [SMALL, LARGE])
def test_a_running_job_is_paused_and_resumed(browser: Browser, stack: Stack, width: int) -> None:
    job = stack.submit(LONG)
    with visiting(browser, stack.ready["url"]) as owner:
        owner.log_in(stack.ready["user"], stack.ready["password"])
        owner.resize(width)
        page, status = owner.page, owner.page.locator(".crumbs .status")
        owner.open(f"{ACCOUNT}/jobs/{job}")
        expect(status).to_have_text("Running", timeout=4 * PATIENCE_MS)
        page.locator("summary", has_text="Pause").click()
        page.get_by_role("button", name="Pause job").click()
        expect(status).to_have_text("Paused")
        expect(page.locator(".live-queue")).to_contain_text("This job is paused. Unless it is resumed, it ends at ")
        owner.open(f"{ACCOUNT}/jobs")
        expect(page.locator(".job-result", has_text="Paused").first).to_be_visible()
        owner.open(f"{ACCOUNT}/jobs/{job}")
        page.get_by_role("button", name="Resume job").click()
        expect(status).to_have_text("Running", timeout=4 * PATIENCE_MS)
        assert owner.complaints == []
    stack.call("POST", f"jobs/{job}/cancel")
    stack.wait_for_end(job)
