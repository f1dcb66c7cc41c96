"""Benchmarks: figures to compare before and after a change, never tests."""
