"""What a job will run: its input text, its stages, and how long they take.

- `input_text` builds the text of a run: the profile with its included files, checked again.
- `multistage` splits a job into stages, each more precise than the one before, and decides which profilesets a
  stage removes.
- `estimates` predicts the time and credits of a job before it runs, and `past_jobs` the progress of its stages and
  the sizes of its shards. Both learn from the account's past jobs.

Promised: the text that was checked is the text that runs, and the baseline is never removed. A plan depends only on
the profile, the limits and the results so far. Estimates are not promised: they decide neither whether a job is
accepted nor what it costs.

Nothing here starts a simulator or changes a job. Start with `multistage.plan`.
"""
