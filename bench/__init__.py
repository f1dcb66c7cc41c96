"""Benchmarks, to compare figures before and after a change."""
