"""`python -m tests.jobs.execution.worker_process`: a worker that claims a job and holds it until it is killed.

It prints one line: its host and process id, the number of jobs of dead workers that it recovered, and its job.
"""

import socket
import sys
import time

import django


def main() -> None:
    django.setup()
    from jobs.execution import simulation_worker, worker_processes
    from jobs.lifecycle import job_moves

    simulation_worker.process.register()
    recovered = worker_processes.recover_dead_workers()
    job = job_moves.claim_job(simulation_worker.slot_name())
    host, pid, _ = simulation_worker.process.name.split(":")
    assert host == socket.gethostname()
    sys.stdout.write(f"{host}:{pid} {recovered} {job.pk if job else 0}\n")
    sys.stdout.flush()
    time.sleep(600)


if __name__ == "__main__":
    main()
