"""The rows of a ranking.

200 rows with the loops and conditions of a template would double the time of the page.
"""

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from dashboard.results import names
from dashboard.results.ranking import RankedRow, Ranking
from dashboard.templatetags.job_labels import UNKNOWN, whole
from jobs.results.verdicts import margin_text, percent

register = template.Library()

ROW = (
    '<tr class="{kind}"><td>{place}</td><th scope="row"><bdi{title}>{prefix}{name}</bdi>{tag}</th>{stage}'
    '<td><svg viewBox="0 0 1000 34" preserveAspectRatio="none" aria-hidden="true"><use href="#{ranking_id}-grid"/>'
    '<path class="b" d="{bar}"/><path class="w" d="{whisker}"/></svg>{cut}</td>'
    "<td>{mean} <span>± {error}</span></td><td>{difference}{margin}</td></tr>"
)
PLACE_BUTTON = '<button name="base" value="{0}" title="Use as baseline">{0}</button>'
MARGIN = " <span>± {}</span>"
STAGE = '<td class="stage">{}</td>'
BASELINE_TAG, PROFILE_TAG, TIED_TAG, CUT, NOTHING = map(
    mark_safe,  # constants
    (
        ' <span class="tag">Baseline</span>',
        ' <span class="tag">Profile</span>',
        ' <span class="tag">Tied</span>',
        '<span class="cut" aria-hidden="true">»</span>',
        "",
    ),
)


@register.simple_tag
def ranking_rows(ranking: Ranking, *, ranking_id: str, has_buttons: bool) -> SafeString:
    """Return the rows. With buttons, a place chooses its entry as the baseline."""
    more = {"ranking_id": ranking_id}
    rows = (_cells(row, has_buttons=has_buttons, has_stages=ranking.has_stages) | more for row in ranking.rows)
    return format_html_join("", ROW, rows)


def _cells(row: RankedRow, *, has_buttons: bool, has_stages: bool) -> dict[str, str]:
    """Return the contents of a row; `format_html_join` escapes those that are not marked as safe."""
    shown = names.shortened(row.name)
    return {
        "kind": f"{row.kind or 'base'}{' tied' if row.is_tied else ''}",
        "place": _place(row, has_buttons=has_buttons),
        "prefix": format_html("<span>{}</span>", row.prefix) if row.prefix else NOTHING,
        "title": format_html(' title="{}{}"', row.prefix, row.name) if shown != row.name else NOTHING,
        "name": shown,
        "tag": _tag(row),
        "stage": format_html(STAGE, row.stage or "") if has_stages else NOTHING,
        "bar": row.bar,
        "whisker": row.whisker,
        "cut": CUT if row.is_cut else NOTHING,
        "mean": whole(row.mean),
        "error": whole(row.error),
        "difference": UNKNOWN if row.difference is None else percent(row.difference, row.margin),
        "margin": NOTHING if row.margin is None else format_html(MARGIN, margin_text(row.margin)),
    }


def _place(row: RankedRow, *, has_buttons: bool) -> str:
    if not row.place:
        return NOTHING
    return format_html(PLACE_BUTTON, row.place) if row.kind and has_buttons else str(row.place)


def _tag(row: RankedRow) -> SafeString:
    """Return the mark of the current baseline, of the profile's own, or of an entry that is tied for best."""
    if not row.kind:
        return TIED_TAG + BASELINE_TAG if row.is_tied else BASELINE_TAG
    if row.is_tied:
        return TIED_TAG
    return NOTHING if row.place else PROFILE_TAG
