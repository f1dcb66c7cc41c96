"""Tests of the Python library and its command line."""
