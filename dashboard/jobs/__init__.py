"""Pages about jobs: list, form, one job, comparison, history."""
