"""The guides for API consumers, followed on a real stack."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.guide_runs import FOLDER, ROOT, follow, shell_in
from tests.docs.typescript import provide_node
from tests.npm import Missing
from tests.stack import Stack, running_stack

pytestmark = [pytest.mark.xdist_group("guides"), pytest.mark.timeout(600)]
TYPESCRIPT = "TypeScript"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("stack")) as started:
        yield started


@pytest.fixture(scope="module")
def values(stack: Stack) -> dict[str, str]:
    """The values that a reader fills in."""
    return {"http://127.0.0.1:8000": stack.ready["url"], "sk_…": stack.ready["apiKey"]}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The part of a clone that the tutorial uses."""
    ignored = shutil.ignore_patterns("*.egg-info", "__pycache__", "build")
    shutil.copytree(ROOT / "sdk" / "python", tmp_path / "sdk" / "python", ignore=ignored)
    return tmp_path


def test_the_tutorial_works(clone: Path, values: dict[str, str]) -> None:
    with shell_in(clone, {}) as shell:
        follow("tutorial", shell, values, without={TYPESCRIPT})


def test_the_typescript_program_works(clone: Path, values: dict[str, str]) -> None:
    programs = clone / "bin"
    programs.mkdir()
    try:
        provide_node(programs)
    except Missing as missing:
        pytest.skip(str(missing))
    with shell_in(clone, {}) as shell:
        shell.run(f"PATH={programs}:$PATH")
        follow("tutorial", shell, values, only={"Prepare a folder", TYPESCRIPT})
