"""The wheel of the library builds, installs, and has types that a consumer can check strictly."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.environments import make_environment
from tests.npm import Missing, Package

ROOT = Path(__file__).resolve().parents[2]
CONSUMER = Path(__file__).parent / "consumer" / "consumer.py"
PYRIGHT = Package(
    name="pyright",
    version="1.1.414",
    sha256="bf5f473f6167c0d14175492c3263d783b4489a6956e1c06c18e15228e3a3fa42",
)
pytestmark = [pytest.mark.xdist_group("wheel"), pytest.mark.timeout(600)]
# Wrong on purpose
MISTAKES = """
from simservice_client import Client
Client().jobs.submit("text", priority="urgent")
Client().jobs.submit("text", max_credit=3)
Client().jobs.results("1").result.summary.metric
Client().jobs.results(1)
"""


def run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without the project's paths."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "MYPYPATH"}}
    return subprocess.run([*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the library."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = shutil.copytree(
        ROOT / "sdk" / "python", folder / "source", ignore=shutil.ignore_patterns("*.egg-info", "build")
    )
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    built = run(sys.executable, "-m", "pip", *build, folder, copy, folder=folder)
    assert built.returncode == 0, built.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment with nothing but the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("environment")
    return make_environment(folder, "--constraint", ROOT / "constraints.txt", wheel)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A consumer's folder."""
    shutil.copy(CONSUMER, tmp_path)
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    return tmp_path


def test_the_wheel_has_the_library_and_its_types_only(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"simservice_client"}
    assert "simservice_client/py.typed" in names
    assert "simservice_client/_sync/jobs.py" in names


def test_the_installed_library_needs_httpx_only(python: Path, project: Path) -> None:
    imported = run(python, "-c", "import consumer; print(consumer.Client.__name__)", folder=project)
    assert imported.stdout == "Client\n", imported.stderr
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", python]
    listed = json.loads(run(*pip, "list", "--format=json", folder=project).stdout)
    names = {each["name"].lower() for each in listed}
    assert names == {
        "simservice-client",
        "httpx",
        "httpcore",
        "h11",
        "anyio",
        "certifi",
        "idna",
        "typing_extensions",
    }


def test_mypy_is_content_with_a_consumer(python: Path, project: Path) -> None:
    mypy: list[str | Path] = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--python-executable",
        python,
    ]
    checked = run(*mypy, "consumer.py", folder=project)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    wrong = run(*mypy, "mistakes.py", folder=project)
    assert wrong.stdout.count("error:") == 4, wrong.stdout


def test_pyright_is_content_with_a_consumer(python: Path, project: Path) -> None:
    try:
        pyright: list[str | Path] = ["node", PYRIGHT.folder() / "index.js", "--pythonpath", python]
    except Missing as missing:
        pytest.skip(str(missing))
    (project / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    checked = run(*pyright, "consumer.py", folder=project)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    wrong = run(*pyright, "mistakes.py", folder=project)
    assert wrong.stdout.count("error:") >= 4, wrong.stdout
