"""`make bench`: every benchmark, one row each."""

import subprocess
import sys

from bench import api, funnel, large_job, ledger, pages, simulator

if __name__ == "__main__":
    simulator.main()
    funnel.main()
    api.main()
    pages.main()
    large_job.main()
    # Each sets up Django, so each needs its own process.
    subprocess.run([sys.executable, "-m", "bench.profiles"], check=True)
    subprocess.run([sys.executable, "-m", "bench.webhooks"], check=True)
    subprocess.run([sys.executable, "-m", "bench.slow_clients"], check=True)
    subprocess.run([sys.executable, "-m", "bench.logins"], check=True)
    # Last, because it sets up Django in this process.
    ledger.main()
