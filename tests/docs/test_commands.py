"""Every command in the documentation is run, or a comment above it gives the reason why not.

Pages for callers of the API are followed in `test_guides.py`, and all others here, in a copy of the checkout.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.public.documents import FILES, INDEX
from tests.docs.guide_runs import ROOT, Block, blocks_of, follow, shell_in
from tests.stack import Stack, running_stack

pytestmark = [pytest.mark.xdist_group("commands"), pytest.mark.timeout(120)]
IGNORED = shutil.ignore_patterns(
    ".*", "node_modules", "__pycache__", "*.egg-info", "bench", "screenshots", "site", "tests", "fuzz"
)
FOLLOWED_AS_GUIDES = {f"docs/{file}" for name, file in FILES.items() if name != INDEX}
PAGES = {
    str(path.relative_to(ROOT)): list(blocks_of(path.read_text(encoding="utf-8")))
    for path in (*ROOT.glob("*.md"), ROOT / "deploy" / "README.md", *(ROOT / "docs").rglob("*.md"))
    if path.name != "CHANGELOG.md"
}
SIMULATOR = "#!/bin/sh\necho SimulationCraft 1120-01 for World of Warcraft 11.2.0.63003 Live\n"
LANGUAGES = {"bash", "console", "http", "ini", "json", "mermaid", "python", "shell", "simc", "sql", "yaml"}


def is_run(block: Block) -> bool:
    return block.language == "bash" and not block.file and not block.mark


RUN = [page for page, blocks in PAGES.items() if page not in FOLLOWED_AS_GUIDES and any(map(is_run, blocks))]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_what_it_is(page: str) -> None:
    languages = {block.language for block in PAGES[page] if not block.file}
    assert languages - LANGUAGES == set()


@pytest.mark.parametrize("page", PAGES)
def test_named_commands_are_run_by_another_test(page: str) -> None:
    if page in FOLLOWED_AS_GUIDES:
        return
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    for block in PAGES[page]:
        if block.language == "bash" and block.file:
            assert f'"{block.file}"' in tests, block.file


@pytest.mark.parametrize("page", PAGES)
def test_tests_that_comments_name_exist(page: str) -> None:
    for block in PAGES[page]:
        if block.mark and block.mark[0] == "run by":
            assert (ROOT / block.mark[1]).is_file(), block.mark


@pytest.mark.parametrize("page", PAGES)
def test_named_targets_and_tests_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = (ROOT / page).read_text(encoding="utf-8")
    assert set(re.findall(r"`make ([a-z]+)", text)) <= targets
    assert [path for path in re.findall(r"`pytest ([\w/.-]+)`", text) if not (ROOT / path).exists()] == []


def test_the_index_lists_every_page_once() -> None:
    folder = ROOT / "docs"
    listed = re.findall(r"^\| \[.+?\]\(([\w/-]+\.md)\) \| \S", (folder / "README.md").read_text(), re.MULTILINE)
    pages = [str(path.relative_to(folder)) for path in [*folder.glob("*/*.md"), *folder.glob("*/*/README.md")]]
    assert sorted(listed) == sorted(pages)


def test_operators_commands_are_found() -> None:
    assert len(RUN) >= 5


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("stack")) as started:
        yield started


@pytest.fixture(scope="module")
def checkout(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, which commands can change, with the running stack's data folder."""
    copy = tmp_path_factory.mktemp("checkout") / "simservice"
    shutil.copytree(ROOT, copy, ignore=IGNORED)
    shutil.copy(ROOT / ".env.example", copy)
    (copy / ".venv").symlink_to(sys.prefix)
    (copy / ".local").symlink_to(stack.data)
    return copy


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a simulator, and a repository whose `make` creates one."""
    folder = tmp_path_factory.mktemp("simc")
    for name in ("custom", "repository/engine"):
        (folder / name).mkdir(parents=True)
        (folder / name / "simc").write_text(SIMULATOR)
        (folder / name / "simc").chmod(0o755)
    repository = folder / "repository"
    (repository / "engine" / "simc").rename(repository / "engine" / "simc.sh")
    (repository / "engine" / "Makefile").write_text("release:\n\tcp simc.sh simc\n")
    for each in (folder / "custom", repository):
        (each / "profiles").mkdir()
        (each / "profiles" / "gear.simc").write_text("head=,id=1\n")
    git = ["git", "-C", str(repository), "-c", "user.name=Test", "-c", "user.email=test@localhost"]
    for command in (["init", "--quiet", "--initial-branch=midnight"], ["add", "."], ["commit", "-qm", "Add simc"]):
        subprocess.run([*git, *command], check=True)
    return folder


@pytest.mark.parametrize("page", RUN)
def test_commands_run(page: str, checkout: Path, builds: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"PATH": path, "PYTHONPATH": "", "SIMC_REPOSITORY": str(builds / "repository")}
    with shell_in(checkout, environment) as shell:
        shell.run("set -a; . .local/stack.env; set +a")
        follow(page.removesuffix(".md"), shell, {"/opt/simc": str(builds)}, folder=checkout)
