"""`make bench`: every benchmark, one row each."""

import subprocess
import sys

from bench import api, funnel, large_job, ledger, pages, profiles, simulator

if __name__ == "__main__":
    simulator.main()
    profiles.main()
    funnel.main()
    api.main()
    pages.main()
    large_job.main()
    # In a process of its own, as each that sets up Django.
    subprocess.run([sys.executable, "-m", "bench.webhooks"], check=True)
    # The last, because it sets up Django in this process.
    ledger.main()
