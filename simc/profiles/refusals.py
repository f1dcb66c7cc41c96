"""The refusals of one profile: one entry for each mistaken line, with the person's mistake as its reason."""

from simc.profiles.grammar import BOM
from simc.profiles.mistakes import LOST_LINE_BREAKS, NOT_A_NAME, READ_CHARACTERS, reason_of_line
from simc.profiles.policy import NOT_BUNDLED, Mistake, Refusal, is_profileset

LISTED_REFUSALS = 20


class Refusals:
    """Collects refusals. A mistake is the only one of its line; `listed` has the first 20 of `count`."""

    def __init__(self) -> None:
        self.listed: list[Refusal] = []
        self.count = 0
        # The last refused line, how many of its refusals count, and whether one of them is a mistake
        self._line = self._of_line = 0
        self._is_mistaken = False

    def take(self, refusal: Refusal) -> None:
        """Add a refusal."""
        if refusal.line != self._line:
            self._line, self._of_line, self._is_mistaken = refusal.line, 0, False
        if self._is_mistaken and refusal.reason is not LOST_LINE_BREAKS:
            return
        if isinstance(refusal, Mistake):
            self.count -= self._of_line
            self._of_line, self._is_mistaken = 0, True
            while self.listed and self.listed[-1].line == refusal.line:
                self.listed.pop()
        self.count += 1
        self._of_line += 1
        if len(self.listed) < LISTED_REFUSALS:
            self.listed.append(refusal)

    def explained(self, text: str) -> list[Refusal]:
        """Return the listed refusals with the mistakes that only the whole lines of their text show."""
        if not any(isinstance(refusal, Mistake) for refusal in self.listed):
            return self.listed
        lines = text.removeprefix(BOM).split("\n")
        return [_explained(refusal, lines[refusal.line - 1]) for refusal in self.listed]


def _explained(refusal: Refusal, line: str) -> Refusal:
    """Return a refusal with the mistake in its line, if it says only that a text is not an option."""
    if not isinstance(refusal, Mistake) or refusal.reason not in (NOT_BUNDLED, NOT_A_NAME):
        return refusal
    text = refusal.text
    word = text.partition("=")[2] if is_profileset(text) else text
    reason = reason_of_line(line, word)
    # A long line is not shown if the mistake would be cut off.
    shown = line.strip() if word in line.strip()[:READ_CHARACTERS] else text
    return Refusal(refusal.line, shown, reason) if reason else refusal
