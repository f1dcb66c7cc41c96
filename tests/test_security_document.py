"""The threat model names a test for each defence; all of them exist."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
DOCUMENT = (TESTS.parent / "docs" / "explanation" / "security.md").read_text()


def test_the_threat_model_names_tests_that_exist() -> None:
    sources = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    named = set(re.findall(r"\btest_[a-z0-9_]+\b(?!\.py)", DOCUMENT))
    assert len(named) > 30
    assert {name for name in named if f"def {name}(" not in sources} == set()


def test_the_threat_model_names_files_that_exist() -> None:
    named = set(re.findall(r"`((?:[a-z]+/)*test_[a-z_]+\.py)", DOCUMENT))
    assert len(named) > 10
    assert {name for name in named if not (TESTS / name).exists()} == set()
