"""Submissions of a fault run, derived from a seed and a number so that each can be sent again."""

from random import Random

from jobs.credentials import GameCredentials
from jobs.enums import Channel, Priority
from jobs.submission.request import Submission

PROFILE = 'mage="Frosty"\nlevel=80\nspec=frost\nhead=,id=1,ilevel=600\niterations=50\n'
# Result and duration of the fake simulator: most runs are short, some outlast a lease.
OUTCOMES = ["completed"] * 8 + ["error", "crash"]
SECONDS = [0.0] * 5 + [0.2] * 3 + [0.8, 2.5]
SHORT_QUEUE_SECONDS = 1
# One in so many jobs runs in stages.
STAGED_EVERY = 7
PROFILESETS = "".join(f"profileset.{name}+=level=1\n" for name in "abcd")
# The report of the fake simulator: one profileset is clearly worse than the others.
FIGURES = {"mean_stddev": 1, "stddev": 5, "min": 1, "max": 99}
REPORT = {
    "version": "1",
    "report_version": "2.0.0",
    "sim": {
        "options": {"iterations": 10},
        "players": [{"name": "Frosty", "collected_data": {"dps": {"mean": 5, "mean_std_dev": 1}}}],
        "profilesets": {"results": [{"name": name, "mean": 50 - 40 * (name == "d"), **FIGURES} for name in "abcd"]},
    },
}


def random_for(seed: int, number: int) -> Random:
    """Return the random generator of one submission."""
    return Random(f"{seed}:{number}")  # noqa: S311 - repeatable, not secret


def credentials_of(seed: int, number: int) -> GameCredentials | None:
    """Return the game credentials of a submission; every fourth has some."""
    if number % 4:
        return None
    letters = random_for(seed, -number - 1)
    return GameCredentials(
        client_id=f"{letters.getrandbits(128):032x}", client_secret=f"{letters.getrandbits(160):040x}"
    )


def make_request(seed: int, number: int) -> Submission:
    """Return a submission; a few wait for one second only, and some run in stages."""
    random = random_for(seed, number)
    staged = number % STAGED_EVERY == 0
    seconds, end = random.choice(SECONDS), random.choice(OUTCOMES)
    return Submission(
        channel=Channel.LATEST,
        git_branch="midnight",
        build_id=None,
        profile_text=f"{PROFILE}{PROFILESETS if staged else ''}# stand-in: {seconds} {end}\n",
        multi_stage=staged,
        max_credits=random.choice([None, None, 640]),
        max_runtime_seconds=None,
        max_queue_seconds=SHORT_QUEUE_SECONDS if random.random() < 0.05 else None,
        priority=random.choice(list(Priority)),
        metadata={"number": str(number)},
        credentials=credentials_of(seed, number),
        html=False,
        csv=random.random() < 0.2,
        json_version=2,
        webhook_events=(),
    )
