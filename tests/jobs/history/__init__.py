"""Tests of the history and its rules."""
