"""Fixtures of the tests of SimulationCraft's formats."""

from tests.sandbox.conftest import open_directory

__all__ = ["open_directory"]
