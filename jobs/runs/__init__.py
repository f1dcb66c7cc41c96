"""One simulator process of a job: its input, its directory, its outputs and its verdict."""
