"""Speed of profile analysis, and the cost of the worst request bodies; takes a minute.

The cost of a body is that of reading, parsing and checking it, without the database.
"""

import os
import sys
import time
import tracemalloc

from bench import hostile
from bench.hostile import Body
from simc.profiles.analysis import analyse
from simc.profiles.numbers import Bounds
from simc.profiles.policy import Rules

SETTINGS = {
    "DJANGO_SETTINGS_MODULE": "simservice.settings",
    "SECRET_KEY": "bench",
    "DATABASE_URL": "postgresql://127.0.0.1:1/none",
    "REDIS_URL": "redis://127.0.0.1:1",
}
AIM_SECONDS = 0.25
SHOWN_BODIES = 10

PROFILESETS = 20_000
ROUNDS = 5


def large_profile() -> str:
    """Return a profile of 2 MB: one actor and many profilesets, each with an item and a number over the limit."""
    item = "trinket1=orb,id={0},ilevel=680,bonus_id=1/2/3/4"
    lines = (
        f'profileset."Set {number}"+={item.format(number)}\nprofileset."Set {number}"+=iterations=500000'
        for number in range(PROFILESETS)
    )
    return 'mage="Ada"\n' + "\n".join(lines)


def _analysis_seconds(text: str) -> float:
    """Return the wall-clock seconds of one analysis."""
    started = time.perf_counter()
    analysis = analyse(text, rules=Rules(), bounds=Bounds(iterations=250_000, target_error=0.01))
    assert analysis.variants == PROFILESETS
    return time.perf_counter() - started


def _body_seconds(body: Body) -> float:
    """Return the CPU seconds to parse and check a body, the best of three."""
    return min(_handling_seconds(body) for _ in range(3))


def _handling_seconds(body: Body) -> float:
    """Return the CPU seconds to handle a body once."""
    from django.http import QueryDict

    from jobs.api.plain_text import from_text
    from jobs.api.submission_request import from_json
    from simc.profiles.analysis import analyse_submitted
    from simservice.api.errors import ApiError
    from simservice.api.parsers import PlainTextParser, parse_json

    started = time.process_time()
    try:
        if body.form == "text/plain":
            submission = from_text(PlainTextParser().read(body.content), QueryDict("channel=latest"), {})
        else:
            submission = from_json(parse_json(body.content))
        rules = Rules(has_credentials=submission.credentials is not None)
        analyse_submitted(
            submission.profile_text, rules=rules, bounds=Bounds(iterations=250_000, target_error=0.01)
        )
    except ApiError:
        pass
    return time.process_time() - started


def _worst_bodies() -> list[tuple[float, str]]:
    """Return the CPU seconds of hostile bodies with their names, the worst first."""
    return sorted(((_body_seconds(body), body.name) for body in hostile.bodies()), reverse=True)


def main() -> None:
    text = large_profile()
    megabytes = len(text.encode()) / 1e6
    seconds = min(_analysis_seconds(text) for _ in range(ROUNDS))
    tracemalloc.start()
    _analysis_seconds(text)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    rows = {
        f"analyzing {PROFILESETS:,} profilesets": f"{megabytes / seconds:.1f} MB/s",
        "memory of that analysis": f"{peak:.0f} MB",
    }
    sys.stdout.writelines(f"{name:<34}{figure:>20}\n" for name, figure in rows.items())
    worst = _worst_bodies()
    shown = worst if "--all" in sys.argv else worst[:SHOWN_BODIES]
    print(f"CPU seconds of {len(worst)} hostile bodies (aim: at most {AIM_SECONDS} each)")
    sys.stdout.writelines(f"  {name:<46}{seconds:>6.3f}\n" for seconds, name in shown)


if __name__ == "__main__":
    os.environ.update(SETTINGS)
    import django

    django.setup()
    main()
