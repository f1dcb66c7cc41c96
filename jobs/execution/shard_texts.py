"""The texts of shards: a stage's profile, divided into its base and its profilesets.

Profilesets inherit the base's numbers (`docs/reference/simulator-command-line.md#iterations-and-errors`). So that a
shard does not run the baseline again, its base has one iteration, and each profileset has its own numbers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from simc.profiles.analysis import FINAL_STAGE_OPTIONS
from simc.profiles.grammar import Token, profileset_name, tokens
from simc.profiles.numbers import Numbers
from simc.profiles.policy import LIMITED, is_profileset
from simc.profiles.selection import quoted, renamed

# A byte order mark at the start of a file is skipped, so no token of the profile may come first.
_HEADING = "# A part of the profile"


_ONE = Numbers(iterations=1, target_error=0)
# Its details are never used, and would be the largest part of each shard's report.
ONE_ITERATION = f"{_ONE.lines}\nreport_details=0"


@dataclass(frozen=True)
class ProfilesetText:
    """A profileset and its own tokens, one on each line."""

    name: str
    lines: str


@dataclass(frozen=True, kw_only=True)
class CutProfile:
    """A profile without numbers: the bases of the first and of the other shards in lines, and the profilesets.

    The options that apply to the baseline alone are only in `first_base`.
    """

    first_base: str
    base: str
    profilesets: tuple[ProfilesetText, ...]


def cut(
    text: str, *, culled: AbstractSet[str], replicates: Mapping[str, str], keeps_final_options: bool
) -> CutProfile:
    """Return a profile in parts, without the culled profilesets; each replicate follows its original.

    With `keeps_final_options`, the first base has the options of the final stage. None of them changes a
    profileset: a seed does not reach profilesets, and scale factors, plots and details belong to the baseline.
    Scale factors lower the default target error, which is therefore written out (`Analysis.effective_numbers`).

    Call this only with profiles that the policy allows (`simc.profiles.selection`).
    """
    base: list[Token] = []
    profilesets: dict[str, list[Token]] = {}
    for token in tokens(text):
        name = token.name or ""
        key = profileset_name(name) if is_profileset(name) else None
        if key is None:
            if name not in LIMITED:
                base.append(token)
        elif key[0] not in culled:
            profilesets.setdefault(key[0], []).append(token)
    others = [token for token in base if token.name not in FINAL_STAGE_OPTIONS]
    return CutProfile(
        first_base=_lines(token.text for token in (base if keeps_final_options else others)),
        base=_lines(token.text for token in others),
        profilesets=tuple(_with_replicates(profilesets, replicates)),
    )


def _with_replicates(
    profilesets: Mapping[str, Sequence[Token]], replicates: Mapping[str, str]
) -> Iterator[ProfilesetText]:
    """Yield each profileset, followed by its replicate if it has one."""
    for name, own in profilesets.items():
        yield ProfilesetText(name, _lines(token.text for token in own))
        if name in replicates:
            replicate = replicates[name]
            copies = (renamed(token, replicate, appends=(token.name or "")[-1:] == "+") for token in own)
            yield ProfilesetText(replicate, _lines(copies))


def _lines(texts: Iterable[str]) -> str:
    """Return lines that the simulator reads as these tokens."""
    return "\n".join(map(quoted, texts))


def first_input(profile: CutProfile, *, numbers: Numbers) -> str:
    """Return the input of the first shard: the whole profile, with one iteration for each profileset."""
    text = shard_text(profile.profilesets, numbers=_ONE)
    return shard_input(profile.first_base, text, numbers=numbers.lines)


def shard_text(profilesets: Sequence[ProfilesetText], *, numbers: Numbers | None) -> str:
    """Return the lines of profilesets with these numbers, or with those that they inherit if `numbers` is None.

    A profileset's numbers follow its own lines, because `profileset.NAME=` removes earlier ones.
    """
    options = numbers.options if numbers else ()
    blocks = (
        "\n".join([entry.lines, _lines(f"profileset.{entry.name}+={option}" for option in options)])
        for entry in profilesets
    )
    return "\n".join(blocks)


def shard_input(base_text: str, text: str, *, numbers: str) -> str:
    """Return the input of a shard: the base's numbers in lines, the base, and profilesets from `shard_text`.

    The numbers come first: after the declaration of another actor, they would override those of the profilesets
    (`docs/reference/simulator-command-line.md#profilesets`).
    """
    return "\n".join([_HEADING, numbers, base_text, text, ""])
