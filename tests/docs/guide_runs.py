"""Follow a guide: save its files, run its commands in one shell, and compare their output.

A guide's blocks are marked by their language: `bash` is run, `text` is the output of the command before it,
`console` and data are shown only, and every other block is a file with the name after its language. A comment above
a block says why it is not run, or which test runs it.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs"
BASH = shutil.which("bash") or "bash"
MARKER = "--- the end of a command ---"
# Numbers differ from run to run. Those with one digit count something.
NUMBER = re.compile(r"\d[\d.,]*\d")
SHOWN = {"console", "ini", "json"}
MARK = re.compile(r"<!-- (not run|run by): (\S.+?) -->", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of a guide, with the heading of its section."""

    section: str
    language: str
    file: str
    text: str
    output: str | None
    # ("not run", the reason), ("run by", the test) or None.
    mark: tuple[str, str] | None


def blocks_of(text: str) -> Iterator[Block]:
    """Yield the files and commands of a guide in order, commands with their output."""
    tokens = MarkdownIt("commonmark").parse(text)
    fences = [token for token in tokens if token.type == "fence"]
    outputs = {id(first): second.content for first, second in pairwise(fences) if second.info == "text"}
    section = ""
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            section = tokens[index + 1].content
        if token.type == "fence" and token.info != "text":
            language, _, file = token.info.partition(" ")
            yield Block(section, language, file, token.content, outputs.get(id(token)), _mark(tokens[index - 1]))


def _mark(token: Token) -> tuple[str, str] | None:
    """Return the mark in the comment above a block."""
    found = MARK.search(token.content) if token.type == "html_block" else None
    return (found[1], found[2]) if found else None


class Shell:
    """One bash for all commands of a guide. It ends at the first command that fails."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, command: str, *, until: Callable[[str], bool] = lambda _: True) -> str:
        """Return the output of a command, and what follows until a condition is true. Raises AssertionError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\necho '{MARKER}'\n")
        self._process.stdin.flush()
        output, has_ended = "", False
        while not (has_ended and until(output)):
            line = self._process.stdout.readline()
            assert line, f"The command failed:\n{command}\n{output}"
            # A command may not end its last line.
            has_ended = has_ended or line.endswith(f"{MARKER}\n")
            output += line.removesuffix(f"{MARKER}\n")
        return output


@contextmanager
def shell_in(folder: Path, environment: Mapping[str, str]) -> Iterator[Shell]:
    """Start a shell, and stop it with all commands in the background."""
    process = subprocess.Popen(
        [BASH, "--noprofile", "--norc"],
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    shell = Shell(process)
    shell.run("set -e -o pipefail")
    try:
        yield shell
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("kill $(jobs -p) 2>/dev/null; exit\n") if process.poll() is None else None
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def follow(
    name: str,
    shell: Shell,
    values: Mapping[str, str],
    *,
    without: Collection[str] = (),
    only: Collection[str] = (),
    folder: Path = FOLDER,
) -> None:
    """Follow a guide, or some of its sections, with values in place of its examples. Raises AssertionError."""
    text = (folder / f"{name}.md").read_text(encoding="utf-8")
    for example, value in values.items():
        text = text.replace(example, value)
    for block in blocks_of(text):
        if block.section not in without and (not only or block.section in only):
            _do(block, shell)


def _do(block: Block, shell: Shell) -> None:
    """Save a file, or run a command and compare its output."""
    if block.mark:
        return
    if block.file:
        folder = Path(shell.run("pwd").strip())
        (folder / block.file).write_text(block.text, encoding="utf-8")
    elif block.language == "bash":
        expected = block.output or "…"
        in_background = block.text.rstrip().endswith("&")
        output = shell.run(block.text, until=lambda so_far: not in_background or matches(expected, so_far))
        assert matches(expected, output), f"{block.text}\nprinted\n{output}\ninstead of\n{expected}"
    else:
        assert block.language in SHOWN, f"A block of {block.language} has no file name:\n{block.text}"


def matches(expected: str, output: str) -> bool:
    """Return whether an output is as expected.

    `…` is any text, alone on a line any number of lines. Numbers with several digits are any number.
    """
    words = (re.escape(part) for part in re.split(r"(\n…(?=\n)|\s+|…)", expected.strip()))
    pattern = "".join(_loosened(word) for word in words)
    return re.fullmatch(pattern, output.strip(), re.DOTALL) is not None


def _loosened(word: str) -> str:
    """Return the pattern of an escaped word of an expected output."""
    if word.endswith("…"):
        return r"(\s.*)?" if word != "…" else ".*"
    if not word.replace("\\", "").strip():
        return r"\s+" if word else ""
    plain = word.replace("\\.", ".").replace("\\,", ",")
    return "".join(
        NUMBER.pattern if NUMBER.fullmatch(part) else part for part in re.split(f"({NUMBER.pattern})", plain)
    )
