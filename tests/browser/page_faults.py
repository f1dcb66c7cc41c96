"""What is wrong with a page: accessibility, width, size, errors."""

from collections.abc import Callable

from tests.browser import axe, loading
from tests.browser.chromium import LARGE, SMALL, SMALLEST, Scheme, Visitor
from tests.browser.site_data import View


def faults(visitor: Visitor, view: View) -> list[str]:
    """Open a page; return what is wrong with it, first wide and light, then narrow and dark."""
    view.reach(visitor)
    problems = [f"{view.name}: {fault}" for fault in loading.faults(visitor) if view.is_ours]
    looks: list[tuple[int, Scheme, Callable[[Visitor], list[str]]]] = [
        (LARGE, "light", axe.violations),
        (SMALL, "dark", axe.visual_violations),
    ]
    for width, scheme, check in looks:
        visitor.resize(width)
        visitor.page.emulate_media(color_scheme=scheme)
        visitor.unfold()
        visitor.end_transitions()
        problems += [f"{view.name}, {scheme}, {width}: {fault}" for fault in check(visitor)]
        problems += [f"{view.name}, {width}: scrolls sideways"] * visitor.is_too_wide()
    problems += [f"{view.name}: {complaint}" for complaint in visitor.complaints]
    visitor.complaints.clear()
    return problems + [f"{view.name}, {fault}" for fault in faults_of_phones(visitor)]


def faults_of_phones(visitor: Visitor) -> list[str]:
    """Return what a page with a wide font and large numbers hides on phones."""
    visitor.widen_letters()
    visitor.enlarge_resources()
    problems = []
    for width in (SMALL, SMALLEST):
        visitor.resize(width)
        problems += [f"{width}: scrolls sideways, because of {cause}" for cause in visitor.too_wide()]
        problems += [f"{width}: numbers of the table {table} are cut" for table in visitor.evaluate(CUT_NUMBERS)]
    return problems


# The names of regions in which a number is outside the visible part.
CUT_NUMBERS = """
    [...new Set([...document.querySelectorAll('.scroll .number, .scroll .num')].filter((cell) =>
        cell.checkVisibility() && cell.innerText.trim()
        && cell.getBoundingClientRect().right > cell.closest('.scroll').getBoundingClientRect().right + 1
    ).map((cell) => cell.closest('.scroll').ariaLabel))]
"""
