"""The job form in a browser: its live check, files, and the keyboard."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser import axe
from tests.browser.chromium import Visitor
from tests.stack import Stack

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(300)]
NEW_JOB = "/dashboard/demo/jobs/new"
PROFILE = 'mage="Keys"\nlevel=80\niterations=100\n'
REFUSED = "xml=/etc/passwd"
CHECK = "/jobs/check"


@pytest.fixture
def page(visitor: Visitor, stack: Stack) -> Page:
    """The form of a member."""
    visitor.log_in(stack.ready["user"], stack.ready["password"])
    visitor.open(NEW_JOB)
    return visitor.page


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.locator(f"{selector}:focus").count():
            return
    raise AssertionError(f"Tab does not reach {selector}")


def wait_until(page: Page, condition: Callable[[], bool]) -> None:
    """Wait for up to a minute while the browser's events are handled."""
    for _ in range(600):
        if condition():
            return
        page.wait_for_timeout(100)
    raise AssertionError("the condition did not become true")


def test_a_job_is_submitted_by_keyboard_only(page: Page) -> None:
    tab_to(page, "[name=profile]")
    page.keyboard.type(PROFILE + REFUSED)
    expect(page.locator("#refused .is-refused")).to_contain_text("It writes a file.")
    expect(page.locator("#refused .is-refused th")).to_have_text("4")
    expect(page.locator("#verdict")).to_have_text("Not ready to submit.")
    for _ in REFUSED:
        page.keyboard.press("Backspace")
    expect(page.locator("#verdict")).to_have_text("Ready to submit.")
    expect(page.locator("#findings")).to_contain_text("Keys")
    expect(page.locator("#refused")).to_be_empty()
    tab_to(page, "#submit")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Keys")


def test_a_refused_form_keeps_the_profile_and_focuses_the_error(page: Page) -> None:
    page.locator("[name=profile]").fill(PROFILE)
    page.locator("[name=cap]").fill("0")
    page.get_by_role("button", name="Submit job").click()
    expect(page.locator("[name=cap]")).to_be_focused()
    expect(page.locator("[name=profile]")).to_have_value(PROFILE)


def test_an_invalid_field_has_a_red_border(page: Page) -> None:
    for name in ("profile", "title", "cap"):
        valid = border_of(page, name)
        page.locator(f"[name={name}]").evaluate("field => field.setAttribute('aria-invalid', 'true')")
        assert border_of(page, name) != valid, name
        assert border_of(page, name) == page.evaluate(RED), name


RED = """(() => {
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = "var(--bad)";
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
})()"""


def border_of(page: Page, name: str) -> str:
    return str(page.locator(f"[name={name}]").evaluate("field => getComputedStyle(field).borderTopColor"))


def test_a_control_writes_into_the_profile_and_shows_its_effect(page: Page) -> None:
    profile, length = page.locator("[name=profile]"), page.locator("[name=length]")
    profile.fill(PROFILE + "max_time=1+2\n")
    expect(length.locator("option:checked")).to_have_text("Custom: max_time=1+2")
    length.select_option("240")
    expect(profile).to_have_value(PROFILE + "max_time=240\n")
    expect(length.locator("option:checked")).to_have_text("Profile: 4 min")
    page.locator("[name=targets]").select_option("5")
    expect(profile).to_have_value("desired_targets=5\n" + PROFILE + "max_time=240\n")
    page.get_by_role("button", name="Submit job").click()
    expect(page.locator("h1")).to_have_text("Keys")


def test_text_typed_during_a_check_is_not_lost(page: Page) -> None:
    profile = page.locator("[name=profile]")
    profile.fill(PROFILE)
    expect(page.locator("#verdict")).to_have_text("Ready to submit.")
    held: list[Route] = []
    page.route(f"**{CHECK}", lambda route: held.append(route))
    page.locator("[name=targets]").select_option("5")
    wait_until(page, lambda: len(held) > 0)
    profile.fill(f"{PROFILE}# typed\n")
    held.pop().continue_()
    wait_until(page, lambda: len(held) > 0)
    expect(profile).to_have_value(f"{PROFILE}# typed\n")
    held.pop().continue_()
    expect(profile).to_have_value(f"desired_targets=5\n{PROFILE}# typed\n")


def test_a_refused_line_is_marked_and_selected_where_it_stands(page: Page) -> None:
    profile, marks = page.locator("[name=profile]"), page.locator("#marks span")
    profile.fill(PROFILE + "# filler\n" * 200 + f"{REFUSED}\n" + "# end\n" * 50)
    expect(marks).to_have_count(1)
    expect(marks).to_be_hidden()
    page.get_by_role("button", name="Go to line 204").click()
    selected = "field => field.value.slice(field.selectionStart, field.selectionEnd)"
    assert profile.evaluate(selected) == REFUSED
    expect(marks).to_be_visible()
    box, mark = profile.bounding_box(), marks.bounding_box()
    assert box
    assert mark
    assert box["y"] < mark["y"] < box["y"] + box["height"] - mark["height"]


@pytest.mark.parametrize("width", [360, 1280])
def test_the_price_and_the_button_are_always_visible(visitor: Visitor, page: Page, width: int) -> None:
    visitor.resize(width)
    page.locator("[name=profile]").fill(PROFILE)
    expect(page.locator("#price")).to_contain_text("1 character")
    for top in (0, 10**6):
        page.evaluate(f"scrollTo(0, {top})")
        for part in (page.locator("#price"), page.locator("#submit")):
            expect(part).to_be_in_viewport(ratio=1)


def test_a_chosen_file_fills_in_the_profile(page: Page, tmp_path: Path) -> None:
    chosen = tmp_path / "export.simc"
    chosen.write_text(PROFILE)
    page.locator("[name=file]").set_input_files(chosen)
    expect(page.locator("[name=profile]")).to_have_value(PROFILE)
    expect(page.locator("#findings")).to_contain_text("Keys")


def test_a_dropped_file_fills_in_the_profile(visitor: Visitor, page: Page) -> None:
    visitor.evaluate(
        f"""const data = new DataTransfer();
        data.items.add(new File([{PROFILE!r}], "export.simc"));
        const drop = new DragEvent("drop", {{dataTransfer: data, bubbles: true, cancelable: true}});
        document.querySelector("[name=profile]").dispatchEvent(drop)"""
    )
    expect(page.locator("[name=profile]")).to_have_value(PROFILE)
    expect(page.locator("#verdict")).to_have_text("Ready to submit.")


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"#" * (2 * 1024 * 1024 + 1), "larger than 2 MB"), (b"mage=\xe4", "not UTF-8 text")],
    ids=["large", "latin"],
)
def test_an_unusable_file_is_refused_before_it_is_sent(
    visitor: Visitor, page: Page, content: bytes, words: str, tmp_path: Path
) -> None:
    page.locator("[name=profile]").fill(PROFILE)
    expect(page.locator("#verdict")).to_have_text("Ready to submit.")
    visitor.requests.clear()
    (chosen := tmp_path / "export.simc").write_bytes(content)
    page.locator("[name=file]").set_input_files(chosen)
    expect(page.locator("#profile-problem")).to_contain_text(words)
    expect(page.locator("[name=profile]")).to_have_value(PROFILE)
    assert not visitor.requests


def test_a_pasted_profile_that_is_too_large_is_not_sent(visitor: Visitor, page: Page) -> None:
    visitor.evaluate("document.querySelector('[name=profile]').value = '#'.repeat(2 * 1024 * 1024 + 1)")
    visitor.requests.clear()
    page.get_by_role("button", name="Submit job").click()
    expect(page.locator("#profile-problem")).to_contain_text("larger than 2 MB")
    expect(page.locator("[name=profile]")).to_be_focused()
    assert not visitor.requests


def test_only_one_check_runs_at_a_time(page: Page) -> None:
    held: list[Route] = []
    # Playwright cannot call a built-in method.
    page.route(f"**{CHECK}", lambda route: held.append(route))
    for number in range(3):
        page.locator("[name=profile]").fill(f"{PROFILE}# {number}")
        page.wait_for_timeout(900)
        wait_until(page, lambda: len(held) > 0)
    assert len(held) == 1
    held[0].continue_()
    wait_until(page, lambda: len(held) == 2)
    held[1].continue_()
    expect(page.locator("#verdict")).to_have_text("Ready to submit.")


def test_the_findings_stay_readable_while_a_check_runs(visitor: Visitor, page: Page, checks: None) -> None:
    page.locator("[name=profile]").fill(f"{PROFILE}{REFUSED}")
    expect(page.locator("#findings a")).to_have_text("Profile")
    held: list[Route] = []
    page.route(f"**{CHECK}", lambda route: held.append(route))
    page.locator("[name=profile]").fill(f"{PROFILE}{REFUSED}\n# more")
    wait_until(page, lambda: len(held) == 1)
    expect(page.locator(".job-check")).to_have_attribute("aria-busy", "true")
    assert axe.visual_violations(visitor) == []
    held[0].continue_()
    expect(page.locator(".job-check")).to_have_attribute("aria-busy", "false")


def test_the_form_checks_without_javascript(visitor: Visitor, stack: Stack, page: Page) -> None:
    context = visitor.context.browser
    assert context
    plain = context.new_context(java_script_enabled=False, storage_state=visitor.context.storage_state())
    bare = plain.new_page()
    bare.goto(stack.ready["url"] + NEW_JOB)
    bare.locator("[name=profile]").fill(PROFILE)
    bare.locator("[name=targets]").select_option("5")
    bare.get_by_role("button", name="Check").click()
    expect(bare.locator("#verdict")).to_have_text("Ready to submit.")
    expect(bare.locator("[name=profile]")).to_have_value(f"desired_targets=5\n{PROFILE}")
    bare.get_by_role("button", name="Submit job").click()
    expect(bare.locator("h1")).to_have_text("Keys")
    plain.close()
