"""Records how the simulator process of a run ended."""

from collections.abc import Iterator

from jobs.execution import simulation
from jobs.models import Artifact, Run
from jobs.move_statements import RUN_END
from jobs.simulator.process import Ended
from simservice import statements
from simservice.ids import NEW_ID
from simservice.statements import Statement

# Record how a process ended, unless its run was already recorded as lost. Return ids for the rows of its artifacts.
END_RUN = Statement(
    "end_run",
    f"""
    WITH ended AS (
        UPDATE jobs_run SET {RUN_END} WHERE id = %(run_id)s AND ended_at IS NULL
    )
    SELECT {NEW_ID} FROM generate_series(1, {len(Artifact.Kind)})
    """,  # noqa: S608 - made of constants
)


def record_end(run: Run, ended: Ended) -> Iterator[int]:
    """Record how a process ended, unless its run was already recorded as lost. One statement.

    Returns ids for the rows of the process's artifacts.
    """
    values = simulation.run_fields(run.pk, ended)
    return iter([artifact_id for (artifact_id,) in statements.run(END_RUN, values=values)])
