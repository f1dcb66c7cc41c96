"""Outlines of profiles: the class of the first character and the fight, from the beginning of each profile.

Lists need them for many jobs, so only that much is read; what comes later in a profile is unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models.functions import Left

from jobs.models import Job, JobProfile
from simc.profiles.actors import CLASSES
from simc.profiles.grammar import tokens
from simc.profiles.numbers import read_integer, read_number

HEAD_CHARACTERS = 6_000
MAX_VALUE_CHARACTERS = 40
# Longer fights are not simulated.
MAX_SECONDS = 24 * 3600


@dataclass(frozen=True, kw_only=True)
class Outline:
    """What the beginning of a profile says; values that it does not state are empty or None."""

    class_name: str = ""
    specialization: str = ""
    fight_style: str = ""
    targets: int | None = None
    seconds: float | None = None

    @property
    def fight(self) -> str:
        """Return what the profile says about the fight, for example "Patchwerk, 3 targets, 5:00"."""
        parts = [self.fight_style.replace("_", " ")] if self.fight_style else []
        if self.targets and self.targets > 0:
            parts.append(f"{self.targets:,} target{'' if self.targets == 1 else 's'}")
        if self.seconds and 0 < self.seconds < MAX_SECONDS:
            parts.append("{}:{:02}".format(*divmod(round(self.seconds), 60)))
        return ", ".join(parts)


def outlines_of(jobs: Sequence[Job]) -> dict[int, Outline]:
    """Return the outlines of the jobs' profiles, as far as they are stored. At most one query."""
    if not jobs:
        return {}
    profiles = JobProfile.objects.filter(pk__in=[job.pk for job in jobs])
    heads = profiles.annotate(head=Left("text", HEAD_CHARACTERS)).values_list("pk", "head")
    return {job_id: outline_of(head) for job_id, head in heads}


def outline_of(head: str) -> Outline:
    """Return the outline of the beginning of a profile. As in the simulator, the last value of an option counts."""
    whole = head if len(head) < HEAD_CHARACTERS else head.rpartition("\n")[0]
    class_name, found = "", dict[str, str]()
    for token in tokens(whole):
        name, value = token.name, token.value
        if name is None or not value or len(value) > MAX_VALUE_CHARACTERS:
            continue
        if name in CLASSES:
            class_name = class_name or name
        elif name == "spec":
            found.setdefault(name, value)
        else:
            found[name] = value
    return Outline(
        class_name=class_name,
        specialization=found.get("spec", ""),
        fight_style=found.get("fight_style", ""),
        targets=read_integer(found.get("desired_targets", "")),
        seconds=read_number(found.get("max_time", "")),
    )
