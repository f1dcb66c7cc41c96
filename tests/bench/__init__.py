"""Tests of the benchmarks: their statistics, tables, files and checks."""
