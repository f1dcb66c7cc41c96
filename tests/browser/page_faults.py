"""What is wrong with a page: accessibility, width, size, errors."""

from collections.abc import Callable

from tests.browser import axe, loading
from tests.browser.chromium import LARGE, SMALL, SMALLEST, Scheme, Visitor
from tests.browser.site_data import View


def faults(visitor: Visitor, view: View) -> list[str]:
    """Open a page; return what is wrong with it: wide and light, narrow and dark, and with a wide font."""
    view.reach(visitor)
    problems = loading.faults(visitor)
    looks: list[tuple[int, Scheme, Callable[[Visitor], list[str]]]] = [
        (LARGE, "light", axe.violations),
        (SMALL, "dark", axe.visual_violations),
    ]
    for width, scheme, check in looks:
        visitor.resize(width)
        visitor.page.emulate_media(color_scheme=scheme)
        visitor.unfold()
        visitor.end_transitions()
        problems += [f"{scheme}, {width}: {fault}" for fault in check(visitor)]
    visitor.widen_letters()
    for width in (SMALL, SMALLEST):
        visitor.resize(width)
        problems += [f"{width}: scrolls sideways, because of {cause}" for cause in visitor.too_wide()]
        problems += [f"{width}: numbers of the table {table} are cut" for table in visitor.evaluate(CUT_NUMBERS)]
    problems += visitor.complaints
    visitor.complaints.clear()
    return [f"{view.name}: {problem}" for problem in problems]


# The names of regions in which a number is outside the visible part.
CUT_NUMBERS = """
    [...new Set([...document.querySelectorAll('.scroll .number, .scroll .num')].filter((cell) =>
        cell.checkVisibility() && cell.innerText.trim()
        && cell.getBoundingClientRect().right > cell.closest('.scroll').getBoundingClientRect().right + 1
    ).map((cell) => cell.closest('.scroll').ariaLabel))]
"""
