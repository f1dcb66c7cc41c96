"""Tests of the benchmarks: their statistics, their table, their simulator and the checks of the soak."""
