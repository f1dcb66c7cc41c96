"""Hostile profiles and reports, which must not reach the dashboard's origin."""

import gzip
import hashlib
import json
from pathlib import Path

import psycopg
import pytest
from playwright.sync_api import Frame, expect

from tests.browser.chromium import LARGE, SMALL, Visitor
from tests.stack import Stack

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(300)]
EVIL = "<script>alert(1)</script>"
PROFILE = f"""mage="{EVIL}"
level=80
iterations=50
profileset."{EVIL}"+=intellect=9000
copy="{EVIL} 2"
intellect=9100
"""
# A report that tries what a script of the dashboard's origin could do, and shows the results.
REPORT = """<!doctype html><title>untouched</title><p id=outcome>nothing ran</p><script>
const outcome = {};
const attempt = (name, act) => {
  try { outcome[name] = String(act()); } catch (error) { outcome[name] = error.name; }
};
attempt("origin", () => self.origin);
attempt("cookie", () => document.cookie);
attempt("storage", () => localStorage.length);
attempt("parent", () => parent === self ? "none" : parent.document.title);
attempt("top", () => { if (top === self) return "none"; top.location = "/docs"; return "moved"; });
attempt("opened", () => open("/docs"));
attempt("dialog", () => alert("from the report"));
attempt("form", () => {
  const form = document.createElement("form");
  form.action = "/accounts/logout/"; form.method = "post";
  document.body.append(form); form.submit(); return "sent";
});
fetch("/dashboard/", {credentials: "include"})
  .then(response => response.text()).then(text => text.length, error => error.name)
  .then(told => { outcome.fetched = String(told); })
  .then(() => { document.getElementById("outcome").textContent = JSON.stringify(outcome); });
</script>"""


@pytest.fixture(scope="module")
def job(stack: Stack) -> str:
    """The id of an ended job whose names, metadata and report are hostile."""
    job_id = stack.submit(PROFILE, artifacts={"html": True, "csv": True}, metadata={EVIL: EVIL})
    assert stack.wait_for_end(job_id, seconds=300)["status"] == "completed"
    (report,) = Path(stack.data).rglob(f"{job_id}-*-html_report.gz")
    report.write_bytes(gzip.compress(REPORT.encode()))
    # As if the simulator had written it; a file with another hash would not be sent.
    digest = hashlib.sha256(REPORT.encode()).hexdigest()
    with psycopg.connect(stack.ready["databaseUrl"]) as connection:
        statement = "UPDATE jobs_artifact SET sha256 = %s WHERE job_id = %s AND kind = 'html_report'"
        connection.execute(statement, [digest, job_id])
    return job_id


def test_hostile_names_are_shown_as_text(visitor: Visitor, stack: Stack, job: str) -> None:
    visitor.log_in(stack.ready["user"], stack.ready["password"])
    share = stack.job(job)["links"]["share"]
    parts = [f"/dashboard/demo/jobs/{job}{part}" for part in ("", "/profile", "/log")]
    for path in (*parts, "/dashboard/demo/jobs", "/dashboard/demo/", share):
        visitor.open(path)
        expect(visitor.page.locator("main")).to_contain_text(EVIL)
        assert visitor.page.locator("script", has_text="alert(1)").count() == 0, path
    visitor.open(f"/dashboard/demo/jobs/{job}?q=%3Cscript%3Ealert(1)%3C/script%3E")
    expect(visitor.page.locator("#ranking-search")).to_have_value(EVIL)
    assert visitor.page.locator("script", has_text="alert(1)").count() == 0
    visitor.open(f"/dashboard/demo/jobs/new?again={job}")
    expect(visitor.page.locator("[name=profile]")).to_have_value(PROFILE)


# Right-to-left letters, with marks that reverse what follows
REVERSED = "\u202e\u05d0\u05d1\u05d2 \u202e\u0645\u0631\u062d\u0628\u0627"
FROM_THE_RIGHT = f"""mage="{REVERSED}"
level=80
iterations=50
profileset."{REVERSED} 1"+=intellect=9000
profileset."Left"+=intellect=9100
"""
# The left edges of the texts of elements
EDGES = """
    [...document.querySelectorAll(%r)].map((one) => {
        const text = document.createRange();
        text.selectNodeContents(one);
        return Math.min(...[...text.getClientRects()].map((box) => box.left));
    })
"""


def test_names_from_right_to_left_stay_beside_their_numbers(visitor: Visitor, stack: Stack) -> None:
    job = stack.submit(FROM_THE_RIGHT)
    assert stack.wait_for_end(job, seconds=300)["status"] == "completed"
    visitor.open(stack.job(job)["links"]["share"])
    for width in (LARGE, SMALL):
        visitor.resize(width)
        names, figures, ranked = (
            visitor.evaluate(EDGES % selector) for selector in (".lead-name bdi", ".figure strong", ".rows th bdi")
        )
        assert len(names) == 2
        assert names == pytest.approx(figures, abs=3)
        assert ranked == pytest.approx([min(ranked)] * 3, abs=3)


def outcome_of(frame: Frame) -> dict[str, str]:
    """Return the results that a hostile report shows."""
    expect(frame.locator("#outcome")).to_contain_text("fetched")
    outcome: dict[str, str] = json.loads(frame.locator("#outcome").inner_text())
    return outcome


HARMLESS = {
    "origin": "null",
    "cookie": "SecurityError",
    "storage": "SecurityError",
    "opened": "null",
    "dialog": "undefined",
    "form": "sent",
    "fetched": "TypeError",
}


def test_a_framed_hostile_report_has_no_access(visitor: Visitor, stack: Stack, job: str) -> None:
    visitor.log_in(stack.ready["user"], stack.ready["password"])
    for path in (f"/dashboard/demo/jobs/{job}/files", stack.job(job)["links"]["share"]):
        visitor.open(path)
        address = visitor.page.url
        visitor.page.locator("details.more:has(iframe) summary").click()
        frame = visitor.page.locator("iframe").element_handle().content_frame()
        assert frame
        assert outcome_of(frame) == {**HARMLESS, "parent": "SecurityError", "top": "SecurityError"}
        assert visitor.page.url == address
        assert len(visitor.context.pages) == 1
    assert_still_logged_in(visitor)


def test_a_hostile_report_opened_directly_is_sandboxed(visitor: Visitor, stack: Stack, job: str) -> None:
    visitor.log_in(stack.ready["user"], stack.ready["password"])
    artifacts = stack.call("GET", f"jobs/{job}/result")["result"]["artifacts"]
    (report,) = [artifact["url"] for artifact in artifacts if artifact["kind"] == "html_report"]
    visitor.open(report)
    assert outcome_of(visitor.page.main_frame) == {**HARMLESS, "parent": "none", "top": "none"}
    assert_still_logged_in(visitor)


def assert_still_logged_in(visitor: Visitor) -> None:
    """Assert that the visitor is still logged in; discard the browser's messages about the report."""
    assert [complaint for complaint in visitor.complaints if not complaint.startswith("console: ")] == []
    visitor.complaints.clear()
    assert not [request for request in visitor.requests if request.url.endswith("/logout/")]
    visitor.open("/dashboard/")
    assert visitor.heading() == "Overview"
