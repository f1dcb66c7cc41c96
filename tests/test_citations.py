"""References to the documentation are checked by `make citations`."""

from pathlib import Path

import pytest

from tests.citations import anchors, problems

GUIDE = "# Guide\n\n## Cancel a job\n\n```\n## Not a heading\n```\n\n## `POST /jobs`: submit\n\n## Cancel a job\n"
# In parts, so that this file passes the check itself.
DOCS = "docs"
ELSEWHERE = "(contract" + ", section 4)"


def check(folder: Path, **texts: str) -> list[str]:
    """Return the problems of files by their name, with `__` for the dot, beside a guide."""
    (folder / "docs").mkdir()
    (folder / "docs" / "guide.md").write_text(GUIDE)
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(text)
    return [str(problem) for problem in problems(folder)]


def test_anchors_are_those_of_github(tmp_path: Path) -> None:
    (tmp_path / "guide.md").write_text(GUIDE)
    assert anchors(tmp_path / "guide.md") == {"guide", "cancel-a-job", "cancel-a-job-1", "post-jobs-submit"}


def test_existing_references_pass(tmp_path: Path) -> None:
    python = f'"""See {DOCS}/guide.md#cancel-a-job."""\n# {DOCS}/guide.md\n'
    markdown = f"[a]({DOCS}/guide.md#post-jobs-submit) [b](#here) [c](https://example.org)\n# Here\n"
    assert check(tmp_path, a__py=python, b__md=markdown) == []


@pytest.mark.parametrize("name", ["guide.md#cancel", "other.md", "guide.md#not-a-heading"])
def test_dangling_references_are_reported(tmp_path: Path, name: str) -> None:
    assert check(tmp_path, a__py=f'\n"""See {DOCS}/{name}."""\n') == [f"a.py:2: {DOCS}/{name} does not exist"]


@pytest.mark.parametrize("target", ["guide.md", "#nowhere", f"{DOCS}/guide.md#nowhere", "picture.png"])
def test_dangling_links_in_markdown_are_reported(tmp_path: Path, target: str) -> None:
    assert f"a.md:2: {target} does not exist" in check(tmp_path, a__md=f"\n[text]({target})\n")


def test_missing_files_named_in_markdown_are_reported(tmp_path: Path) -> None:
    text = f"`{DOCS}/guide.md` and `jobs/gone.py`\n"
    assert check(tmp_path, a__md=text) == ["a.md:1: jobs/gone.py does not exist"]


@pytest.mark.parametrize("text", [f'"""A rule {ELSEWHERE}."""\n', f"x = 1  # {ELSEWHERE}\n"])
def test_citations_of_other_documents_are_reported(tmp_path: Path, text: str) -> None:
    assert check(tmp_path, a__py=text) == [
        f"a.py:1: “{ELSEWHERE[:10]}…” is not in the repository; link to docs/reference"
    ]


def test_code_is_not_a_citation(tmp_path: Path) -> None:
    code = "def run({0}):\n    return call({0}, 1)\n".format("design")
    assert check(tmp_path, a__py=code) == []
