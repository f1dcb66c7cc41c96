"""Verdicts: which variants of a job are clearly better than its baseline, and what its result says in words.

Every page, picture, table and API response that compares the results of one job uses `Compared`, so they agree:

- Two results differ if their difference exceeds its margin: the root of the sum of both squared 95 % margins, times
  the factor by which replicates differed more than reported (`jobs.planning.multistage.widening`).
- With m comparisons, the margin is widened so that all of them are right with a probability of 95 % (Bonferroni):
  a job whose variants have no effect names a winner in at most 5 % of runs. Each of the m variants is compared with
  the profile's baseline. If another baseline is chosen, it was picked after looking at the results, so the margins
  then cover all pairs.
- Variants are tied for best if they are clearly better than the baseline and none is clearly better than them.
  Those that a stage dropped were told apart from it then (`jobs.planning.multistage.beaten`), and are not compared
  with it again, because their figures are less precise.
- An error of zero, or one of too few fights, is unknown. Nothing differs clearly from such a result.

Numbers in texts are rounded to their margin: "+2.8 % ± 0.2".
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from statistics import NormalDist
from typing import Any

from jobs.enums import VerdictKind
from jobs.models import Job
from jobs.results.rankings import LISTED, Entry, listed
from simc.reports import CONFIDENCE

METRICS = {"dps": "DPS", "raid_dps": "Raid DPS"}
GAIN, LOSS, EVEN = "gain", "loss", "even"
# The probability that at least one of a job's comparisons is wrong
WRONG_PROBABILITY = 0.05
# The names of a verdict. Its sentence has one, which is cut.
MAX_NAMES = 10
MAX_NAME_LENGTH = 100
MAX_DECIMALS = 2
# Larger numbers and percentages are written as powers of ten.
LARGEST_NUMBER, LARGEST_PERCENTAGE = 1e9, 1e5
# The ends of sentences about incomplete results
PARTIAL, SO_FAR = " (partial result)", " so far"


@cache
def widened(comparisons: int) -> float:
    """Return by what factor 95 % margins of error grow, so that all of these comparisons are right with 95 %."""
    if comparisons <= 1:
        return 1.0
    return NormalDist().inv_cdf(1 - WRONG_PROBABILITY / (2 * comparisons)) / CONFIDENCE


def margin_between(first: Entry, second: Entry, *, factor: float = 1.0) -> float:
    """Return the margin of error of a difference, in the metric's unit; infinity if it is unknown."""
    margin = factor * math.hypot(first.error, second.error)
    return margin if math.isfinite(margin) and _has_error(first) and _has_error(second) else math.inf


def _has_error(entry: Entry) -> bool:
    """Return whether the error of a mean is known. A mean without any damage has none."""
    if entry.has_few_fights or not math.isfinite(entry.mean) or not math.isfinite(entry.error):
        return False
    return entry.error > 0 or entry.mean == 0


class Compared:
    """Entries, best first, compared with a baseline: the one at place `base`, or else `own`.

    `own` is the entry of the profile itself, and not one of the entries. It competes with them if it
    `is_candidate`, as the first of several actors does. `count` is the number of all entries if there are more.
    The entries are not final if the job is running, and incomplete if its result is `partial`. `has_stages` is
    whether the job ran in stages.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        own: Entry,
        *,
        base: int = 0,
        count: int = 0,
        widening: float = 1.0,
        is_candidate: bool = False,
        partial: bool = False,
        is_running: bool = False,
        has_stages: bool = False,
    ) -> None:
        self.entries, self.own = entries, own
        self.baseline = entries[base - 1] if 0 < base <= len(entries) else own
        self.count = max(count, len(entries))
        self.is_candidate, self.has_stages = is_candidate, has_stages
        self.partial, self.is_running = partial, is_running
        self.widening = widening
        self.comparisons = self.count if self.baseline is own else math.comb(self.count + 1, 2)
        self.factor = widening * widened(self.comparisons)
        self.kinds = [self.kind_of(entry) for entry in entries]

    @property
    def is_complete(self) -> bool:
        """Return whether all entries are known."""
        return len(self.entries) == self.count

    def differs(self, entry: Entry, other: Entry) -> bool:
        """Return whether two means clearly differ."""
        return abs(entry.mean - other.mean) > margin_between(entry, other, factor=self.factor)

    def kind_of(self, entry: Entry) -> str:
        """Return GAIN, LOSS, or EVEN for a difference within the margin of error; empty for the baseline itself."""
        if entry is self.baseline:
            return ""
        if not self.differs(entry, self.baseline):
            return EVEN
        return GAIN if entry.mean > self.baseline.mean else LOSS

    def change(self, value: float) -> float:
        """Return by how many percent a value exceeds the baseline's mean, which must not be zero."""
        return (value - self.baseline.mean) / abs(self.baseline.mean) * 100

    def change_of(self, entry: Entry) -> float | None:
        """Return by how many percent an entry is better; None for the baseline, and if it cannot be calculated."""
        if entry is self.baseline or not self.baseline.mean:
            return None
        return _finite(self.change(entry.mean))

    def margin_of(self, entry: Entry) -> float | None:
        """Return the margin of error of an entry's change, in percent; None if it is unknown."""
        if entry is self.baseline or not self.baseline.mean:
            return None
        return _finite(margin_between(entry, self.baseline, factor=self.factor) / abs(self.baseline.mean) * 100)

    @cached_property
    def leaders(self) -> Sequence[Entry]:
        """Return the best entry, and those that are tied with it; none if no entry is clearly better."""
        return [entry for entry in self.level if self._can_win(entry)]

    @cached_property
    def tied(self) -> Sequence[Entry]:
        """Return the entries that are tied for best; none if there is one best entry, or no better one."""
        return self.leaders if len(self.leaders) > 1 else []

    @cached_property
    def level(self) -> Sequence[Entry]:
        """Return the candidates that no other one clearly exceeds, best first."""
        candidates = [entry for entry in self._candidates() if math.isfinite(entry.mean)]
        candidates.sort(key=lambda entry: -entry.mean)
        # Of two entries, the one with the smaller mean can only exceed others clearly if it is more precise.
        rivals: list[Entry] = []
        level = []
        for entry in candidates:
            if not any(self.differs(entry, rival) for rival in rivals):
                level.append(entry)
            if _has_error(entry) and (not rivals or entry.error < rivals[-1].error):
                rivals.append(entry)
        return level

    def _candidates(self) -> Sequence[Entry]:
        """Return the entries that can be the best: those of the last stage, unless the job stopped early.

        An earlier stage dropped the others, but not for good if one has the highest mean after all. Only the
        entries in a summary count, so that a verdict needs no other data.
        """
        first = self.entries[:LISTED]
        if self.is_candidate:
            return [self.own, *first]
        last = max((entry.stage or 1 for entry in first), default=1)
        final = [entry for entry in first if (entry.stage or 1) == last]
        if self.partial or self.is_running or not any(map(self._can_win, final)):
            return first
        highest = max(entry.mean for entry in final)
        return [entry for entry in first if entry.mean > highest or (entry.stage or 1) == last]

    def _can_win(self, entry: Entry) -> bool:
        return self.is_candidate or self.kind_of(entry) == GAIN

    def verdict(self, *, unit: str = METRICS["dps"]) -> "Verdict":
        """Return the verdict about the entries."""
        facts = _Facts(self, unit)
        if not self.entries:
            return facts.of_one()
        if self.is_candidate:
            return facts.of_actors()
        return facts.of_variants()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a result says about its variants or actors.

    `names` are the best entry or the first of those tied for best, `count` is the number of all of them.
    `change` is in percent of the baseline, on average if several are tied, and `margin` is its margin of error.
    `factor` widens the margins of all differences. The sentence is `lead`, `name` and `rest`, so that a page can
    isolate the untrusted name.
    """

    kind: VerdictKind
    names: Sequence[str] = ()
    count: int = 0
    change: float | None = None
    margin: float | None = None
    factor: float = 1.0
    lead: str
    name: str = ""
    rest: str = ""

    @property
    def text(self) -> str:
        """Return the verdict as a sentence without a full stop."""
        return f"{self.lead}{self.name}{self.rest}"


class _Facts:
    """Makes the verdict about compared entries, the only place that words it."""

    def __init__(self, compared: Compared, unit: str) -> None:
        self.compared, self.unit = compared, unit
        self.leaders = compared.leaders
        self.end = SO_FAR if compared.is_running else PARTIAL if compared.partial else ""

    def of_one(self) -> Verdict:
        """Return the mean of the only entry."""
        own = self.compared.own
        if not math.isfinite(own.mean):
            return self._without_leaders(VerdictKind.UNKNOWN, "The result has no figures")
        text = self._mean(own) if own.mean else "No damage"
        return self._without_leaders(VerdictKind.NO_VARIANTS, text)

    def of_actors(self) -> Verdict:
        """Return the best actor, or those tied for best."""
        if not self.leaders:
            return self._without_leaders(VerdictKind.UNKNOWN, "The result has no figures")
        best, count = self.leaders[0], len(self.leaders)
        missing = self.compared.count - len(self.compared.entries)
        among = f" of the first {LISTED:,}" if missing > 0 else ""
        if count == 1:
            rest = f", {self._mean(best)}{self.end}"
            return self._of_leaders(VerdictKind.BEST_ACTOR, lead=f"Best actor{among}: ", rest=rest)
        mean = number(sum(entry.mean / count for entry in self.leaders))
        lead = f"{count:,}{among} actors are tied for best, about {mean} {self.unit}{self.end}"
        return self._of_leaders(VerdictKind.TIED_ACTORS, lead=lead)

    def of_variants(self) -> Verdict:
        """Return the best variant, those tied for best, or that none is better."""
        compared = self.compared
        if not _has_error(compared.baseline):
            return self._without_leaders(VerdictKind.UNKNOWN, "Too few fights to compare variants")
        if not self.leaders:
            baseline = "your baseline" if compared.baseline is compared.own else "the chosen baseline"
            return self._without_leaders(VerdictKind.NONE_BETTER, f"No variant is clearly better than {baseline}")
        if len(self.leaders) > 1:
            return self._tied()
        best, change = self.leaders[0], compared.change_of(self.leaders[0])
        margin = compared.margin_of(best)
        figure = self._mean(best) if change is None else percent_with_margin(change, margin)
        is_alone = len(compared.level) == 1
        return self._of_leaders(
            VerdictKind.BEST if is_alone else VerdictKind.UPGRADE,
            lead="Best: " if is_alone else "Clear upgrade: ",
            rest=f", {figure}{self.end}",
            change=change,
            margin=margin,
        )

    def _tied(self) -> Verdict:
        """Return how many variants are tied for best. If all that are listed are, there may be more."""
        compared, count = self.compared, len(self.leaders)
        changes = [compared.change_of(entry) for entry in self.leaders]
        known = [change for change in changes if change is not None]
        change = sum(known) / count if len(known) == count else None
        margin = compared.margin_of(self.leaders[0])
        mean = f"{number(sum(entry.mean / count for entry in self.leaders))} {self.unit}"
        about = mean if change is None else percent(change, margin)
        has_more = count == min(LISTED, len(compared.entries)) < compared.count
        counted = f"At least {count:,}" if has_more else f"{count:,}"
        lead = f"{counted} variants are tied for best, about {about}{self.end}"
        return self._of_leaders(VerdictKind.TIED, lead=lead, change=change, margin=margin)

    def _of_leaders(
        self,
        kind: VerdictKind,
        *,
        lead: str,
        rest: str = "",
        change: float | None = None,
        margin: float | None = None,
    ) -> Verdict:
        name = self.leaders[0].name
        shown = name if len(name) <= MAX_NAME_LENGTH else f"{name[: MAX_NAME_LENGTH - 1]}…"
        return Verdict(
            kind=kind,
            names=[entry.name for entry in self.leaders[:MAX_NAMES]],
            count=len(self.leaders),
            change=change,
            margin=margin if change is not None else None,
            factor=self.compared.factor,
            lead=lead,
            name=shown if rest else "",
            rest=rest,
        )

    def _without_leaders(self, kind: VerdictKind, text: str) -> Verdict:
        return Verdict(kind=kind, factor=self.compared.factor, lead=f"{text}{self.end}")

    def _mean(self, entry: Entry) -> str:
        error = f" ± {number(entry.error)}" if _has_error(entry) else ""
        return f"{number(entry.mean)}{error} {self.unit}"


def variants_of(
    summary: Mapping[str, Any] | None, *, entries: Iterable[Entry] = (), base: int = 0
) -> Compared | None:
    """Return the variants in a summary compared with the baseline, or None without a main actor.

    `entries` are all profilesets if the summary does not list all of them.
    """
    main = (summary or {}).get("mainActor")
    if not summary or not main:
        return None
    profilesets, stages = main.get("profilesets") or {}, summary.get("multiStage") or {}
    # Only the entries in the summary have their smallest and largest values.
    best = listed(profilesets.get("results", []))
    (own,) = listed([main], first=0)
    return Compared(
        [*best, *list(entries)[len(best) :]],
        own,
        base=base,
        count=profilesets.get("count", 0),
        widening=float(stages.get("widening", 1.0)),
        partial=bool(summary.get("partial")),
        has_stages=bool(stages.get("enabled")),
    )


def actors_of(summary: Mapping[str, Any] | None, *, base: int = 0) -> Compared | None:
    """Return the other actors in a summary compared with the first one, or None for a single actor."""
    actors = (summary or {}).get("actors", {})
    results = actors.get("results")
    if not summary or not results:
        return None
    others = sorted(results[1:], key=lambda actor: -actor["mean"])
    (first,) = listed(results[:1], first=0)
    return Compared(
        listed(others),
        first,
        base=base,
        count=actors.get("count", 0) - 1,
        is_candidate=True,
        partial=bool(summary.get("partial")),
    )


def verdict_in(summary: Mapping[str, Any] | None) -> Verdict | None:
    """Return the verdict of a summary, or None without one. It reads nothing else, however many variants exist."""
    compared = variants_of(summary) or actors_of(summary)
    if not summary or compared is None:
        return None
    return compared.verdict(unit=unit_of(summary))


def verdict_of(job: Job) -> Verdict | None:
    """Return the verdict of a job's result, or None if it has none. The job needs its summary."""
    return verdict_in(job.summary) if job.has_result else None


def unit_of(summary: Mapping[str, Any]) -> str:
    """Return the unit of a summary's figures."""
    return METRICS.get(str(summary.get("metric")), METRICS["dps"])


def count_in(summary: Mapping[str, Any] | None) -> str:
    """Return the number of a summary's variants or actors in words, empty without any."""
    variants = ((summary or {}).get("mainActor") or {}).get("profilesets", {}).get("count", 0)
    actors = (summary or {}).get("actors", {}).get("count", 0)
    if variants:
        return f"{variants:,} variant{'' if variants == 1 else 's'}"
    return f"{actors:,} actors" if actors > 1 else ""


def percent_with_margin(change: float, margin: float | None) -> str:
    """Return a change with its margin of error, such as "+2.8 % ± 0.2"."""
    return percent(change, margin) + (f" ± {margin_text(margin)}" if margin is not None else "")


def percent(change: float, margin: float | None = None) -> str:
    """Return a change in percent with its sign, rounded to its margin of error if that is known."""
    if abs(change) >= LARGEST_PERCENTAGE:
        return _signed(f"{change:+.0e} %")
    text = f"{change:+z,.{_decimals(margin)}f} %"
    return _signed(text if any(digit in text for digit in "123456789") else text[1:])


def margin_text(margin: float) -> str:
    """Return a margin of error in percent with one digit that counts, or more before the decimal point."""
    if margin >= LARGEST_PERCENTAGE:
        return f"{margin:.0e}"
    decimals = _decimals(margin)
    # A margin is never shown as zero.
    return f"{max(margin, 10.0**-decimals):,.{decimals}f}"


def _decimals(margin: float | None) -> int:
    """Return the number of decimals up to the first digit of a margin that is not zero, after rounding it."""
    if margin is None:
        return 1
    if margin <= 0:
        return MAX_DECIMALS
    exponent = math.floor(math.log10(float(f"{margin:.0e}")))
    return min(max(-exponent, 0), MAX_DECIMALS)


def number(value: float) -> str:
    """Return a number without decimals, with thousands separators."""
    return _signed(f"{value:z,.0f}" if abs(value) < LARGEST_NUMBER else f"{value:.3g}")


def _signed(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
