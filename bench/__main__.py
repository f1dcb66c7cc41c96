"""`make bench`: every benchmark, one row each."""

from bench import api, ledger, profiles, simulator

if __name__ == "__main__":
    simulator.main()
    profiles.main()
    api.main()
    # The last, because it sets up Django in this process.
    ledger.main()
