"""`make bench`: every benchmark, one row each."""

from bench import api, profiles, simulator

if __name__ == "__main__":
    simulator.main()
    profiles.main()
    api.main()
