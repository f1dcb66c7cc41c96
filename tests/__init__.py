"""Tests: one folder per app, and tests of several apps."""
