"""The simulator's command line: what the service asks of every run, and how a build names itself.

Sections are those of simulator-cli.
"""

import re
from dataclasses import dataclass
from datetime import date
from typing import Literal

PROFILE_NAME = "profile.simc"
REPORT_NAME = "report.json"
HTML_NAME = "report.html"
# Read by the simulator itself, from its working directory (2a).
CREDENTIALS_NAME = "apikey.txt"
# On the loopback interface of the run's own network namespace, where nothing else listens.
PROXY_PORT = 3128

# Each is known to every tree since 2020 and each value is one that all of them accept: an unknown name would
# only add a warning, a bad value would end the run (section 1.6).
_EVERY_RUN = (
    # Each extra one initialises whole simulations beside the baseline; the number has no bound (2d).
    "profileset_init_threads=1",
    # The form that `jobs.simulator.progress` reads (3.2).
    "progressbar_type=0",
    # Zero would leave the standard errors out of the report; more would only make it larger (2e, 4.2).
    "statistics_level=1",
    # Event logs: one iteration on one thread, and output without end (2e).
    "debug=0",
    "debug_each=0",
    "log=0",
    # Every file that can be asked for at the simulation's scope, should a directive have slipped past the
    # policy (2b). An empty name means no file; without `output` the text report goes to stdout.
    "output=",
    "reforge_plot_output_file=",
    "save_profiles=0",
    "save_raid_summary=0",
)

_REPORT_OPTION = {
    2: f"json2={REPORT_NAME}",
    # Only this exact version string is understood (4.1).
    3: f"json={REPORT_NAME},version=3.0.0-alpha1",
}


def arguments(*, threads: int, json_version: Literal[2, 3], html: bool, has_credentials: bool = False) -> list[str]:
    """Return the arguments of one run in a directory that holds the profile under `PROFILE_NAME`.

    With game credentials beside it, items that the build does not know are looked up with them, through the proxy
    on `PROXY_PORT`.

    The profile comes first: options apply in order and the last one wins (section 1.6), so the service's own
    follow it. File names are relative to the run's directory.
    """
    if threads < 1:
        # The simulator would take the whole machine, whatever share of it the worker has (2d).
        raise ValueError("a run needs at least one thread")
    return [
        PROFILE_NAME,
        *_EVERY_RUN,
        # By default the network would be asked for such an item, without credentials slowly and in vain (2c).
        f"item_db_source={'local/bcpapi' if has_credentials else 'local'}",
        # The only exit of the sandbox; the simulator accepts the option only with exactly three fields (2c).
        *([f"proxy=http,127.0.0.1,{PROXY_PORT}"] if has_credentials else []),
        f"threads={threads}",
        _REPORT_OPTION[json_version],
        # Without a page wanted, the empty name takes back one the profile asked for.
        f"html={HTML_NAME if html else ''}",
        # A page that we host reports its readers to nobody.
        "hosted_html=0",
    ]


def input_text(profile_text: str, run_arguments: list[str]) -> str:
    """Return what really ran as one profile text: the user's, then the options that followed it."""
    options = [argument for argument in run_arguments if argument != PROFILE_NAME]
    return "\n".join([profile_text, "# Options of the service", *options, ""])


@dataclass(frozen=True, slots=True)
class BuildVersion:
    """What a build's version line tells; None where the line is silent."""

    simc_version: str
    wow_version: str | None
    hotfix_date: date | None
    git_branch: str | None
    git_revision: str | None


def probe_arguments() -> list[str]:
    """Return the arguments that make every tree print its version line.

    Newer trees print it and stop. Those of 2020 print it before they read any option, and then fail for want
    of an actor: the exit status says nothing (sections 2f and 3.1).
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
    """Return what the first version line in a build's output says, or None when there is none.

    The built-in simulator's version keeps its name, so that nobody takes it for SimulationCraft.
    """
    for line in text[:_PROBED_CHARACTERS].splitlines():
        if match := _VERSION_LINE.match(line):
            return _build_version(match)
    return None


def _build_version(match: re.Match[str]) -> BuildVersion:
    details = match.string[match.end() :]
    git_build = _GIT_BUILD.search(details)
    version = match["version"]
    return BuildVersion(
        simc_version=version if match["simulator"] == "SimulationCraft" else f"minisim {version}",
        wow_version=match["wow"],
        hotfix_date=_hotfix_date(details),
        git_branch=git_build[1] if git_build else None,
        git_revision=git_build[2] if git_build else None,
    )


def _hotfix_date(details: str) -> date | None:
    match = _HOTFIX.search(details)
    try:
        return date.fromisoformat(match[1]) if match else None
    except ValueError:
        return None
