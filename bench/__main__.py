"""`make bench`: every benchmark, one row each."""

from bench import api, ledger, profiles, simulator

if __name__ == "__main__":
    simulator.main()
    profiles.main()
    ledger.main()
    api.main()
