"""Submission: from a request to an accepted job."""
