"""Template tags of the jobs."""
