"""The completion scripts, in real shells."""

import shutil
import subprocess
from pathlib import Path

import pytest

from simservice_client.cli import completion
from simservice_client.cli.parser import COMMANDS, make_parser
from tests.sdk.commands import Simctl

# What bash does when the tab key is pressed after the last word
BASH = """
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_simctl
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script as the command prints it, without an address or a key."""
    folder = tmp_path_factory.mktemp("completion")
    done = Simctl.of(folder)("completion", "bash")
    assert (done.returncode, done.stderr) == (0, "")
    path = folder / "simctl.bash"
    path.write_text(done.stdout)
    return path


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["ch"], ["check"]),
        (["c"], ["check", "cancel", "compare", "credits", "completion"]),
        (["--json", "us"], ["usage"]),
        (["run", "--prio"], ["--priority"]),
        (["run", "--priority", ""], ["high", "standard", "background"]),
        (["list", "--status", "c"], ["completed", "cancelled"]),
        (["download", "7", "--kind", "std"], ["stdout_log", "stderr_log"]),
        (["logs", "-"], ["-h", "--help", "--url", "--json", "-f", "--follow"]),
        (["completion", "z"], ["zsh"]),
        (["run", "--branch", ""], [""]),
    ],
)
def test_bash_completes(bash_script: Path, words: list[str], completed: list[str]) -> None:
    command = ["bash", "--norc", "-c", BASH, "bash", str(bash_script), "simctl", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.removesuffix("\n").split("\n") == completed


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_a_script_has_every_command_and_option(shell: str) -> None:
    text = completion.script(make_parser(), shell)
    commands = completion.commands_of(make_parser())
    assert [command.name for command in commands] == list(COMMANDS)
    names = [name.lstrip("-") for each in commands for option in each.options for name in option.names]
    assert [name for name in [*COMMANDS, *names] if name not in text] == []


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_a_shell_accepts_its_script(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    text = completion.script(make_parser(), shell)
    subprocess.run([shell, "-n"], input=text, text=True, check=True)


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(
    ("line", "completed"),
    [("simctl ch", ["check"]), ("simctl completion b", ["bash"]), ("simctl run --pri", ["--priority"])],
)
def test_fish_completes(tmp_path: Path, line: str, completed: list[str]) -> None:
    path = tmp_path / "simctl.fish"
    path.write_text(completion.script(make_parser(), "fish"))
    command = ["fish", "--no-config", "-c", f"source {path}; complete -C '{line}'"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [each.split("\t")[0] for each in done.stdout.splitlines()] == completed
