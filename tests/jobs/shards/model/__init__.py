"""A model of sharded jobs, whose reachable states are explored exhaustively.

Two jobs: job A has shards, and job B, with a better priority, can be submitted at any time. Two workers can conduct
job A, and two can help. Each step is one transaction, one stored file, a fault, or a request of the user. What a
process does by itself, such as starting a simulator, is part of its next step, since no other process sees it.

- `state`: the rows, files and processes.
- `rules`: the guards, each of which can be broken, and the bounds of the model.
- `steps`: what a step is; `shard_steps`, `job_steps` and `process_steps`: the steps that a state allows.
- `checks`: the invariants as predicates of states and steps.
- `explorer`: the search, and the steps that lead to a violation.
"""
