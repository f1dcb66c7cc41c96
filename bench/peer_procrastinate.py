"""No-ops through Procrastinate: `python -m bench.peer_procrastinate DATABASE_URL COUNT` prints JSON.

The jobs are stored before the measurement, like those of `bench.moves`.
"""

import asyncio
import json
import sys
import time

import procrastinate

CONCURRENCY = 4


async def do_nothing() -> None:
    """Do nothing."""


async def main(url: str, count: int) -> None:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
    noop = app.task(name="noop")(do_nothing)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await noop.batch_defer_async(*({} for _ in range(count)))
        own, started = time.process_time(), time.perf_counter()
        await app.run_worker_async(concurrency=CONCURRENCY, wait=False, install_signal_handlers=False)
        elapsed, own = time.perf_counter() - started, time.process_time() - own
        done = await app.connector.execute_query_one_async(
            "SELECT count(*) AS count FROM procrastinate_jobs WHERE status = 'succeeded'"
        )
    assert done["count"] == count, done
    sys.stdout.write(json.dumps({"rate": count / elapsed, "cpuMs": own / count * 1000}) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
