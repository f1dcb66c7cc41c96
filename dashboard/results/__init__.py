"""Results of a job for its pages: the headline, the ranking, the breakdown of the damage, gear and stages.

Summaries and details come from untrusted profiles and reports: their texts are only escaped, their numbers only
compared. Pictures are SVG, rendered on the server; their positions are parts of the width.
"""

from dashboard.results.options import Options
from dashboard.results.page import Result, load, result_of

__all__ = ["Options", "Result", "load", "result_of"]
