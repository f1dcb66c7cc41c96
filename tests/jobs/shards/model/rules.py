"""The rules that the steps follow, and the bounds of the model."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The guards of the steps. A test breaks one and expects a violation."""

    claim_takes_waiting_shards: bool = True
    leases_protect_shards: bool = True
    shard_leases_expire: bool = True
    seats_are_limited: bool = True
    claim_checks_funds: bool = True
    claim_checks_cancel: bool = True
    claim_yields_to_jobs: bool = True
    claim_works_without_message: bool = True
    conductor_runs_all_shards: bool = True
    run_stops_at_allowance: bool = True
    finish_checks_attempt: bool = True
    finish_checks_try: bool = True
    finish_checks_status: bool = True
    file_names_contain_try: bool = True
    # A shard that was stopped while it waited has no report, even if it was lost before.
    stop_of_waiting_has_no_report: bool = True
    return_is_free: bool = True
    # Only the job's attempt takes the shards of an earlier one, and it frees the time of its conductor's shard.
    adoption_checks_attempt: bool = True
    adoption_frees_allowances: bool = True
    merge_waits_for_all: bool = True
    merge_reads_each_shard_once: bool = True
    job_end_checks_attempt: bool = True
    bill_ignores_lost_tries: bool = True


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The sizes of the model. Times are in units: a shard needs one or two."""

    shards: int = 3
    slots: int = 2
    attempts: int = 2
    # The shard whose simulator can fail. The conductor and a helper can run it.
    failing_shard: int = 1
    # After this many losses of one shard, the attempt is lost.
    losses: int = 2
    # The time that the hold pays for.
    funded: int = 4
    # Time that no shard exceeds.
    longest_run: int = 2
    # Crashes, pauses, lost answers, unreadable files and stopping workers in one history.
    faults: int = 2


@dataclass(frozen=True, kw_only=True)
class Model:
    """Rules and bounds."""

    rules: Rules = Rules()
    bounds: Bounds = Bounds()
