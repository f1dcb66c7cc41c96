"""`make bench`: every benchmark, one row each."""

from bench import api, funnel, large_job, ledger, pages, profiles, simulator

if __name__ == "__main__":
    simulator.main()
    profiles.main()
    funnel.main()
    api.main()
    pages.main()
    large_job.main()
    # The last, because it sets up Django in this process.
    ledger.main()
