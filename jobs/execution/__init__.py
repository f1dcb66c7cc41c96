"""One attempt at a job: its stages, its lease, its budget and its results."""
