"""The simulator's command line: the arguments of every run, and the version line of a build.

The options are described in `docs/reference/simulator-command-line.md#options-to-control`.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Literal

PROFILE_NAME = "profile.simc"
REPORT_NAME = "report.json"
HTML_NAME = "report.html"
# The simulator reads this file from its working directory.
CREDENTIALS_NAME = "apikey.txt"
# On the loopback interface of the run's network namespace, where nothing else listens.
PROXY_PORT = 3128
OPTIONS_HEADING = "# Options of the service"

# All versions since 2020 accept these names and values. An unknown name would only add a warning, but an invalid
# value would end the run.
_EVERY_RUN = (
    # Each additional thread initialises whole simulations in parallel with the baseline, without a limit.
    "profileset_init_threads=1",
    # The format that `simc.progress` reads.
    "progressbar_type=0",
    # With 0, the report would lack standard errors; a higher level would only make it larger.
    "statistics_level=1",
    # Event logs would run one iteration on one thread and produce unlimited output.
    "debug=0",
    "debug_each=0",
    "log=0",
    # No files besides the report, even if a directive evades the policy. An empty name means no file; without
    # `output`, the text report is written to stdout.
    "output=",
    "reforge_plot_output_file=",
    "save_profiles=0",
    "save_raid_summary=0",
)

_DOWNLOADS = (
    # The only way out of the sandbox. The simulator requires exactly three fields.
    f"proxy=http,127.0.0.1,{PROXY_PORT}",
    "item_db_source=local/bcpapi",
)

_REPORT_OPTION = {
    2: f"json2={REPORT_NAME}",
    # The simulator accepts only this exact version.
    3: f"json={REPORT_NAME},version=3.0.0-alpha1",
}


def arguments(*, threads: int, json_version: Literal[2, 3], html: bool, has_credentials: bool = False) -> list[str]:
    """Return the arguments of one run in a directory that contains the profile as `PROFILE_NAME`.

    With game credentials, the simulator looks up items that the build does not know, through the proxy on
    `PROXY_PORT`.

    The profile precedes the service's options, so that these win
    (`docs/reference/simulator-command-line.md#order-and-values`). Downloads need theirs before it too. File names
    are relative to the run's directory. Raises ValueError if `threads` is less than 1.
    """
    if threads < 1:
        # The simulator would use all processors, regardless of the worker's share.
        raise ValueError("a run needs at least one thread")
    return [
        # The simulator downloads a character as soon as it reads `armory=` or `guild=`.
        *(_DOWNLOADS if has_credentials else ()),
        PROFILE_NAME,
        *_EVERY_RUN,
        # By default, the simulator would try the network for unknown items, slowly and without success.
        *(_DOWNLOADS if has_credentials else ["item_db_source=local"]),
        f"threads={threads}",
        _REPORT_OPTION[json_version],
        # A hosted page would load tracking code.
        "hosted_html=0",
        # Tooltips load a script and a frame of another site. An empty name overrides a file that the profile names.
        *([f"html={HTML_NAME}", "decorated_tooltips=0"] if html else ["html="]),
    ]


def input_text(profile_text: str, run_arguments: list[str]) -> str:
    """Return the whole input of a run as one profile: the user's text, with the service's options around it."""
    at = run_arguments.index(PROFILE_NAME)
    before, after = run_arguments[:at], run_arguments[at + 1 :]
    lines = [profile_text, OPTIONS_HEADING, *after, ""]
    if before:
        # Byte order marks are skipped at the start only.
        lines = [OPTIONS_HEADING, *before, profile_text.removeprefix("\ufeff"), *lines[1:]]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class BuildVersion:
    """The contents of a build's version line; None for missing parts."""

    simc_version: str
    wow_version: str | None
    hotfix_date: date | None
    git_branch: str | None
    git_revision: str | None


def probe_arguments() -> list[str]:
    """Return the arguments with which every version prints its version line.

    Newer versions print it and exit. Those of 2020 print it before they read any option, and then fail because
    there is no actor, so the exit status has no meaning.
    """
    return ["display_build=2"]


_VERSION_LINE = re.compile(
    r"(?P<simulator>SimulationCraft|minisim) (?P<version>[\w.+-]{1,40})"
    r"(?: for World of Warcraft (?P<wow>[0-9][0-9.]{0,30}))?",
    re.ASCII,
)
_HOTFIX = re.compile(r"\bhotfix ([0-9]{4}-[0-9]{2}-[0-9]{2})\b", re.ASCII)
_GIT_BUILD = re.compile(r"\bgit build ([\w./+-]{1,200}) ([0-9a-f]{4,40})\b", re.ASCII)
_PROBED_CHARACTERS = 65_536


def parse_version_line(text: str) -> BuildVersion | None:
    """Return the contents of the first version line in a build's output, or None if there is no such line.

    The built-in simulator's version includes its name, so that it is not mistaken for SimulationCraft.
    """
    match = next(filter(None, map(_VERSION_LINE.match, text[:_PROBED_CHARACTERS].splitlines())), None)
    if match is None:
        return None
    details = match.string[match.end() :]
    hotfix, git_build = _HOTFIX.search(details), _GIT_BUILD.search(details)
    hotfix_date = None
    with suppress(ValueError):
        hotfix_date = date.fromisoformat(hotfix[1]) if hotfix else None
    return BuildVersion(
        simc_version=match["version"] if match["simulator"] == "SimulationCraft" else f"minisim {match['version']}",
        wow_version=match["wow"],
        hotfix_date=hotfix_date,
        git_branch=git_build[1] if git_build else None,
        git_revision=git_build[2] if git_build else None,
    )
