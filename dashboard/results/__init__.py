"""Results of a job for its pages: the headline, the ranking, the breakdown of the damage, gear and stages.

The one idea: numbers become words and positions here, and templates only place them. `page.load` reads a job's
summary, details and ranking, and `page.result_of` turns them into a `Result` without a query, also for the example
of the home page. `options.Options` are the visitor's choices as query parameters, so every view has an address that
can be shared; invalid parameters count as missing.

Summaries and details come from untrusted profiles and reports: their texts are only escaped, their numbers only
compared. Every list is bounded, and extreme numbers stay within their charts. Charts are SVG, rendered on the
server (`scale`).

Nothing here decides what a result means: `jobs.results.verdicts` does.

Start with `page.py`, then `ranking.py`.
"""

from dashboard.results.options import Options
from dashboard.results.page import Result, load, result_of

__all__ = ["Options", "Result", "load", "result_of"]
