"""`make bench`: every benchmark, one row each."""

from bench import api, funnel, ledger, profiles, simulator

if __name__ == "__main__":
    simulator.main()
    profiles.main()
    funnel.main()
    api.main()
    # The last, because it sets up Django in this process.
    ledger.main()
