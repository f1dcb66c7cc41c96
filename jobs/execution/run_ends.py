"""Records how the simulator process of a run ended."""

from collections.abc import Iterator

from jobs.execution import simulation
from jobs.lifecycle import job_moves
from jobs.models import Artifact, Run
from sandbox.process import Ended
from simservice.ids import NEW_ID
from simservice.postgresql.statements import load, run

SQL = load(__file__, job_moves.SQL, new_id=NEW_ID)


def record_end(started: Run, ended: Ended) -> Iterator[int]:
    """Record how a process ended, unless its run was already recorded as lost. One statement.

    Returns ids for the rows of the process's artifacts.
    """
    values = simulation.run_fields(started.pk, ended) | {"count": len(Artifact.Kind)}
    return iter([artifact_id for (artifact_id,) in run(SQL["end_run"], values=values)])
