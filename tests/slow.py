"""Pytest plugin that marks the tests of whole files and folders as slow: `slow_paths` in `pyproject.toml`.

`-m "not slow"` does not even import them, and `-m slow` imports no file without slow tests.
"""

from functools import cache
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("slow_paths", "files and folders whose tests are slow", type="paths")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    selected = config.option.markexpr
    if selected == "not slow":
        return is_slow(collection_path, config) or None
    if selected == "slow" and collection_path.match("test_*.py") and not is_slow(collection_path, config):
        return "mark.slow" not in collection_path.read_text(encoding="utf-8") or None
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if is_slow(item.path, config):
            item.add_marker(pytest.mark.slow)


@cache
def is_slow(path: Path, config: pytest.Config) -> bool:
    """Return whether a file or folder is in `slow_paths`, or below one of them."""
    return any(path.is_relative_to(slow) for slow in config.getini("slow_paths"))
