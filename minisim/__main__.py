"""The program `python -m minisim name=value …`.

Its exit statuses are those of SimulationCraft (`docs/reference/simulator-command-line.md#exit-status`).
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from minisim import VERSION, VERSION_LINE, html_report, json_report, text_report
from minisim.configuration import Configuration, read_arguments
from minisim.settings import FIGHT_STYLES, Settings
from minisim.simulation import Outcome, StopFlag, check_players, profileset_warnings, simulate
from minisim.values import SimulatorError

VERSION_ONLY = 2  # The value of `display_build` for which only the version line is printed.


def main(arguments: Sequence[str]) -> int:
    """Run the simulator and return the exit status."""
    # End quietly if a reader has closed the output.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    stop = StopFlag()

    def interrupt(*_: object) -> None:
        os.write(2, b"minisim: Interrupt!\n")  # a signal handler must not use a buffered stream
        stop.set()

    signal.signal(signal.SIGINT, interrupt)
    try:
        return _run(arguments, stop)
    except SimulatorError as error:
        _print_error(f"Error: {error}")
        return error.status


def _run(arguments: Sequence[str], stop: StopFlag) -> int:
    configuration = Configuration()
    try:
        configuration.apply_all(read_arguments(arguments))
    finally:
        # The first output, even if the options are invalid.
        _print(VERSION_LINE if configuration.settings.display_build else f"minisim {VERSION}")
    if configuration.settings.display_build == VERSION_ONLY:
        return 0
    configuration.rename_duplicates()
    for warning in configuration.warnings:
        _print_error(warning)
    settings = configuration.settings.completed()
    check_players(configuration)
    if settings.output:
        try:
            Path(settings.output).write_bytes(b"")
        except (OSError, ValueError) as error:
            raise SimulatorError(f"Unable to open output file '{settings.output}'") from error
    has_bad_set = not _check(configuration, settings, stop)
    _print(
        f"\nSimulating... ( iterations={settings.iterations}, threads={settings.threads}, "
        f"target_error={settings.target_error:.3f}, max_time={settings.max_time:.0f}, "
        f"vary_combat_length={settings.vary_combat_length:.2f}, optimal_raid=1, "
        f"fight_style={FIGHT_STYLES[settings.fight_style][0]} )\n"
    )
    outcome = simulate(configuration, settings, stop)
    if outcome.is_cancelled:
        message = f"Simulation has been canceled after {outcome.baseline.iterations} iterations! (thread=0)"
        outcome.warnings.append(message)
        _print_error(message)
    _write_reports(outcome, settings)
    return 1 if has_bad_set or (outcome.is_cancelled and configuration.profilesets) else 0


def _check(configuration: Configuration, settings: Settings, stop: StopFlag) -> bool:
    """Return whether all profilesets can run. Otherwise the simulation stops after the first batch of fights."""
    try:
        for warning in profileset_warnings(configuration, settings):
            _print_error(warning)
    except SimulatorError as error:
        _print_error(f"ERROR! {error}")
        stop.set()
        return False
    return True


def _write_reports(outcome: Outcome, settings: Settings) -> None:
    """Write all reports. An error is printed, but does not change the exit status."""
    _print("\nGenerating reports...\n")
    _write("text", settings.output, partial(text_report.render, outcome))
    for target in settings.json:
        label = f"JSON report version {target.report_version}"
        _write(label, target.path, partial(json_report.render, outcome, target))
    if settings.html:
        _write("html", settings.html, partial(html_report.render, outcome))


def _write(label: str, path: str, render: Callable[[], str]) -> None:
    started = time.perf_counter()
    try:
        if path:
            Path(path).write_text(render(), encoding="utf-8", errors="replace")
        else:
            _print(render())
    except (OSError, ValueError) as error:
        _print_error(f"Unable to write the {label} report to '{path}': {error}")
        return
    _print(f"{label} report took {time.perf_counter() - started:.9f}seconds.")


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _print_error(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
