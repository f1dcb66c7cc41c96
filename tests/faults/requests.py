"""Submissions of a fault run, derived from a seed and a number so that each can be sent again."""

from dataclasses import dataclass
from random import Random

from jobs.artifacts.credentials import GameCredentials
from jobs.enums import Channel, Priority
from jobs.submission.request import Submission
from tests.faults.stand_in import CRASH, ERROR, LOST_NUMBERS, NORMAL, profileset

PROFILE = 'mage="Frosty"\nlevel=80\nspec=frost\nhead=,id=1,ilevel=600\niterations=50\n'
# Result and duration of the fake simulator: most runs are short, some outlast a lease.
OUTCOMES = ["completed"] * 8 + ["error", "crash"]
SECONDS = [0.0] * 5 + [0.2] * 3 + [0.8, 2.5]
SHORT_QUEUE_SECONDS = 1
# One in this many jobs runs in stages.
STAGED_EVERY = 7
PROFILESETS = "".join(f"profileset.{name}+=level=1\n" for name in "abcd")
# One in this many jobs has profilesets with their own durations and ends, and can run in shards.
SHARDED_EVERY = 4
SHARD_MILLISECONDS = [10] * 3 + [40] * 3 + [150]
# Longer than a lease, and longer than the initial funds plus the supervisor's overtime.
OUTLASTING_MILLISECONDS = [2500, 2500, 6000]
# Most jobs have no profileset with a special end.
SPECIAL_ENDS = [NORMAL] * 7 + [LOST_NUMBERS] * 2 + [ERROR, CRASH]
# The cap in credits of jobs that reach it, and the milliseconds of each of their profilesets.
SMALL_CAP, LONG_MILLISECONDS = 64, 600
# Longer than the time that this cap pays for.
CAPPED_MILLISECONDS = 4000


@dataclass(frozen=True, kw_only=True)
class ShardedForm:
    """The profilesets and the cap of all jobs of a run, instead of random ones."""

    milliseconds: int = 40
    # The first profileset runs this long, and the last one ends so.
    first_milliseconds: int = 40
    last_end: str = NORMAL
    max_credits: int | None = None

    def profilesets(self) -> str:
        """Return the lines of eight profilesets."""
        middle = [profileset(NORMAL, self.milliseconds, number) for number in range(1, 7)]
        first = profileset(NORMAL, self.first_milliseconds, 0)
        return "".join([first, *middle, profileset(self.last_end, self.milliseconds, 7)])


OUTLASTING_PAUSES = ShardedForm(milliseconds=1200, first_milliseconds=1200)
WITH_REJECTED_SHARD = ShardedForm(last_end=LOST_NUMBERS)
BEYOND_CAP = ShardedForm(first_milliseconds=2 * CAPPED_MILLISECONDS, max_credits=SMALL_CAP)


def random_for(seed: int, number: int) -> Random:
    """Return the random generator of one submission."""
    return Random(f"{seed}:{number}")  # noqa: S311 - repeatable, not secret


def credentials_of(seed: int, number: int) -> GameCredentials | None:
    """Return the game credentials of a submission; every fourth has some."""
    if number % 4:
        return None
    letters = random_for(seed, -number - 1)
    return GameCredentials(
        client_id=f"{letters.getrandbits(128):032x}", client_secret=f"{letters.getrandbits(128):032x}"
    )


def is_sharded(number: int) -> bool:
    """Return whether a submission has profilesets for shards, and therefore no game credentials."""
    return number % SHARDED_EVERY == 1


def profilesets_of(random: Random, *, is_capped: bool) -> str:
    """Return profilesets that run for some milliseconds each; one may have a special end or outlast a lease."""
    milliseconds = LONG_MILLISECONDS if is_capped else random.choice(SHARD_MILLISECONDS)
    lines = [profileset(NORMAL, milliseconds, number) for number in range(random.randint(4, 10))]
    lines[-1] = profileset(random.choice(SPECIAL_ENDS), milliseconds, len(lines))
    if is_capped and random.random() < 0.5:
        lines[0] = profileset(NORMAL, CAPPED_MILLISECONDS, 0)
    elif random.random() < 0.1:
        lines[0] = profileset(NORMAL, random.choice(OUTLASTING_MILLISECONDS), 0)
    return "".join(lines)


def make_request(seed: int, number: int, *, form: ShardedForm | None = None) -> Submission:
    """Return a submission; a few wait for one second only, some run in stages, and some in shards.

    With a `form`, all have its profilesets and can run in shards.
    """
    random = random_for(seed, number)
    staged = number % STAGED_EVERY == 0
    seconds, end = random.choice(SECONDS), random.choice(OUTCOMES)
    max_credits = random.choice([None, None, 640])
    profilesets = PROFILESETS if staged else ""
    in_shards = form is not None or is_sharded(number)
    if form:
        max_credits, profilesets = form.max_credits, form.profilesets()
    elif in_shards:
        max_credits = random.choice([None, None, 640, SMALL_CAP])
        profilesets = profilesets_of(random, is_capped=max_credits == SMALL_CAP)
    return Submission(
        channel=Channel.LATEST,
        git_branch="midnight",
        build_id=None,
        profile_text=f"{PROFILE}{profilesets}# stand-in: {seconds} {end}\n",
        multi_stage=staged,
        max_credits=max_credits,
        max_runtime_seconds=None,
        max_queue_seconds=SHORT_QUEUE_SECONDS if random.random() < 0.05 else None,
        priority=random.choice(list(Priority)),
        metadata={"number": str(number)},
        # Jobs with credentials run as one process.
        credentials=None if in_shards else credentials_of(seed, number),
        html=False,
        csv=random.random() < 0.2,
        json_version=2,
        webhook_events=(),
    )
