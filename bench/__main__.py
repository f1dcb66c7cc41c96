"""`make bench`: every benchmark, one row each."""

from bench import ledger, profiles, simulator

if __name__ == "__main__":
    simulator.main()
    profiles.main()
    ledger.main()
