"""`simctl check`: what would happen to a profile."""

from argparse import Namespace
from collections.abc import Iterator

from simservice_client.cli.console import Console
from simservice_client.cli.exits import Exit, details_of
from simservice_client.cli.formats import duration, state, whole
from simservice_client.cli.profiles import read_profile
from simservice_client.cli.run import complain_about, options_of
from simservice_client.cli.session import open_client
from simservice_client.models import JobEstimate, Validation


def check(arguments: Namespace, console: Console) -> int:
    """Print whether a profile would be accepted, and what it would cost."""
    profile = read_profile(arguments.file)
    with open_client(arguments) as client:
        validation = client.jobs.validate(profile.text, **options_of(arguments))
    if console.as_json:
        console.document(validation.to_json())
    else:
        _print_problems(console, profile.name, validation)
        for line in _lines(validation):
            console.line(line)
    return Exit.COMPLETED if validation.valid else Exit.NOT_COMPLETED


def _print_problems(console: Console, name: str, validation: Validation) -> None:
    """Print the refusal, each refused line and the warnings."""
    refusal = validation.refusal
    if refusal is not None:
        # The lines below say more than the details of the error.
        details = [] if validation.refused_lines else details_of(refusal.meta or {})
        console.complain(" ".join([f"{name}: {refusal.error}", *details, f"({refusal.code})"]))
    for line in validation.refused_lines:
        console.complain(f"{name}:{line.line}: {line.text}: {line.reason}")
    if validation.refused_count > len(validation.refused_lines):
        console.complain(f"{name}: {validation.refused_count - len(validation.refused_lines)} more refused options")
    complain_about(console, name, validation.warnings)
    for deprecation in validation.deprecations:
        console.complain(f"{name}: {deprecation.field} is deprecated: {deprecation.message}")


def _lines(validation: Validation) -> Iterator[str]:
    """Yield what would run and what it would cost."""
    yield f"{'Accepted':9} {'yes' if validation.valid else 'no'}"
    names = f" ({', '.join(validation.names)})" if validation.names else ""
    yield f"{'Actors':9} {validation.actors:,}{names}"
    yield f"{'Variants':9} {validation.variants:,}"
    yield f"{'Stages':9} {_stages(validation)}"
    build = validation.build
    yield f"{'Build':9} " + (
        "none is available"
        if build is None
        else f"{build.simc_version}, {build.git_branch} {build.commit}, {build.id}"
    )
    if validation.valid:
        yield from _cost_lines(validation)


def _cost_lines(validation: Validation) -> Iterator[str]:
    """Yield the limits, the estimate, the fee and the expected start of a job that would be accepted."""
    ceiling = validation.runtime.ceiling
    if ceiling is not None:
        limits = [f"{whole(ceiling.max_credits)} credits"] if ceiling.max_credits is not None else []
        limits += [duration(ceiling.runtime_seconds)] if ceiling.runtime_seconds is not None else []
        yield f"{'Limit':9} {', '.join(limits)}"
    yield from _estimate_lines(validation.estimate)
    yield f"{'Fee':9} {validation.runtime.priority_fee_credits:,} credits"
    yield f"{'Start':9} {_start(validation)}"


def _stages(validation: Validation) -> str:
    stages = validation.multi_stage
    if not stages.enabled:
        return f"one ({state(stages.reason)})"
    errors = ", ".join(f"{stage.label} {stage.target_error:g} %" for stage in stages.stages)
    return f"{len(stages.stages)}: {errors}"


def _estimate_lines(estimate: JobEstimate | None) -> Iterator[str]:
    if estimate is None:
        yield f"{'Estimate':9} unknown: no similar job has run yet"
        return
    cost, seconds, basis = estimate.credits, estimate.sim_seconds, estimate.basis
    jobs = "job" if basis.jobs == 1 else "jobs"
    yield (
        f"{'Estimate':9} {cost.expected:,} credits ({cost.low:,} to {cost.high:,}), "
        f"{seconds.expected:,.1f} s ({seconds.low:,.1f} to {seconds.high:,.1f})"
    )
    whose = "of this account" if basis.own_jobs else "of all accounts"
    build = "on this build" if basis.same_build else "on several builds"
    yield f"{'':9} from {basis.jobs:,} {jobs} {whose}, {build}"


def _start(validation: Validation) -> str:
    start = validation.start
    if start is None:
        return "unknown"
    when = (
        "unknown"
        if start.estimated_start_seconds is None
        else f"in about {duration(start.estimated_start_seconds)}"
    )
    return f"{when}, after {start.jobs_ahead:,} other {'job' if start.jobs_ahead == 1 else 'jobs'}"
