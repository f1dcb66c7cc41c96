"""`make bench`: every benchmark, one row each."""

from bench import simulator

if __name__ == "__main__":
    simulator.main()
