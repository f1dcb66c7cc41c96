"""The content security policy of HTML reports, in Chromium, with a report made as SimulationCraft makes them."""

import pytest
from playwright.sync_api import Browser, Route, expect

from jobs.api.downloads import SAFE_HEADERS

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(120)]
OTHER = "https://elsewhere.example"
# Inline scripts, styles and images as in SimulationCraft's reports, and everything that could load another site.
REPORT = f"""<!doctype html><title>report</title>
<style>#chart {{ width: 123px; background: url(data:image/gif;base64,R0lGODlhAQABAAAAACw=) }}
@import url({OTHER}/import.css);</style>
<link rel="stylesheet" href="{OTHER}/link.css"><link rel="prefetch" href="{OTHER}/prefetch">
<script>var tooltips = {{colorLinks: true}};</script>
<script src="{OTHER}/tooltips.js"></script>
<div id="chart">loading</div>
<img src="{OTHER}/picture.png"><iframe src="{OTHER}/frame"></iframe><object data="{OTHER}/object"></object>
<script>
document.getElementById("chart").innerHTML = '<svg width="9" height="9"><rect width="9" height="9"/></svg>drawn';
navigator.sendBeacon("{OTHER}/beacon"); new Image().src = "{OTHER}/image"; fetch("{OTHER}/fetch").catch(() => 0);
try {{ new WebSocket("wss://elsewhere.example/socket"); }} catch {{ }}
</script>"""


def test_a_report_runs_inline_and_loads_nothing_else(browser: Browser) -> None:
    page, asked = browser.new_page(), list[str]()

    def respond(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(body=REPORT, content_type="text/html", headers=SAFE_HEADERS)

    page.route("**/*", respond)
    page.goto("https://sims.example.org/artifacts/report")
    expect(page.locator("#chart")).to_have_text("drawn")
    assert page.locator("#chart").evaluate("chart => getComputedStyle(chart).width") == "123px"
    page.wait_for_timeout(500)
    assert asked == ["https://sims.example.org/artifacts/report"]
    page.close()
