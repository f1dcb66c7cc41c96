"""One lab: seven scenarios that are measured in the same way before and after a change, and a soak test.

`python -m bench` measures scenarios and prints one table; `figures.py` lists all of them with their aims. Each
scenario is the module of the same name. It runs in a process of its own, on a complete local stack whose simulator
sleeps instead of computing (`lab.py`). Programs that would disturb a measurement are suspended during it.
`python -m bench.soak` takes an hour and prints its own table. So do `python -m bench.recovery` in half an hour, and
`python -m bench.pressure`, which disturbs PostgreSQL and workers in nine ways (`disturbances.py`).
"""
