"""Settings: required ones, defaults, and their list in `.env.example`."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping

import pytest
from django.conf import settings


def start_without(name: str) -> subprocess.CompletedProcess[str]:
    """Start Django in a new process without one setting."""
    return start({key: value for key, value in os.environ.items() if key != name})


def start(environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Start Django in a new process."""
    command = [sys.executable, "manage.py", "check"]
    return subprocess.run(
        command, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", ["SECRET_KEY", "DATABASE_URL", "REDIS_URL"])
def test_a_missing_setting_is_reported_at_the_start(name: str) -> None:
    done = start_without(name)
    assert done.returncode != 0
    assert f"{name} is not set." in done.stderr


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"ARTIFACTS_ENDPOINT_URL": "http://s3"}, "ARTIFACTS_BUCKET is not set"),
        ({"ARTIFACTS_BUCKET": "b", "ARTIFACTS_ACCESS_KEY_ID": "a"}, "or neither"),
    ],
    ids=["no bucket", "half a key"],
)
def test_an_incomplete_bucket_is_reported_at_the_start(variables: dict[str, str], message: str) -> None:
    done = start(os.environ | variables)
    assert done.returncode != 0
    assert message in done.stderr


def test_a_negative_queue_length_is_reported_at_the_start() -> None:
    done = start(os.environ | {"MAX_QUEUE_LENGTH": "-1"})
    assert done.returncode != 0
    assert "MAX_QUEUE_LENGTH is -1; it must be at least 0." in done.stderr


def test_too_many_welcome_credits_are_reported_at_the_start() -> None:
    done = start(os.environ | {"SIGNUP_CREDITS": str(10**12 + 1)})
    assert done.returncode != 0
    assert "SIGNUP_CREDITS is 1000000000001; it must be at most 1000000000000." in done.stderr


EXAMPLE = (settings.BASE_DIR / ".env.example").read_text()
BY_SETTINGS, _, BY_PROCFILE = EXAMPLE.partition("# For the Procfile\n")
LISTED = re.compile(r"^#?([A-Z][A-Z0-9_]*)=(.*)$", re.MULTILINE)
NEEDED = ("SECRET_KEY", "DATABASE_URL", "REDIS_URL")


def names_read(source: str) -> list[str]:
    """Return the settings that a program reads with `env.…("NAME")` or with a function that does."""
    tree = ast.parse(source)
    readers = {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and reads_its_argument(node)
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    return [
        str(call.args[0].value)
        for call in calls
        if isinstance(call.args[0], ast.Constant) and (is_env(call) or getattr(call.func, "id", "") in readers)
    ]


def reads_its_argument(function: ast.FunctionDef) -> bool:
    """Return whether a function reads the setting named by its first argument."""
    first = function.args.args[0].arg if function.args.args else None
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and is_env(node) and node.args]
    return any(isinstance(call.args[0], ast.Name) and call.args[0].id == first for call in calls)


def is_env(call: ast.Call) -> bool:
    """Return whether a call reads the environment."""
    return bool(re.fullmatch(r"env\.\w+|os\.environ\.get|os\.getenv", ast.unparse(call.func)))


def settings_of(**environment: str) -> dict[str, str]:
    """Return all settings of a process with this environment as text."""
    program = (
        "import json; from simservice import settings as s;"
        "print(json.dumps({name: repr(value) for name, value in vars(s).items() if name.isupper()}))"
    )
    # A fixed hash seed makes the order of printed sets stable.
    needed = {
        "PYTHONHASHSEED": "0",
        "SECRET_KEY": "any",
        "DATABASE_URL": "postgresql:///any",
        "REDIS_URL": "redis://any",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=settings.BASE_DIR,
        env={**needed, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    values: dict[str, str] = json.loads(done.stdout)
    return values


def test_every_listed_setting_is_read_once() -> None:
    listed = [name for name, _ in LISTED.findall(BY_SETTINGS)]
    read = names_read((settings.BASE_DIR / "simservice" / "settings.py").read_text())
    assert sorted(listed) == sorted(read), "`.env.example` and settings.py must each name every setting once"


def test_every_setting_of_the_procfile_is_listed() -> None:
    procfile = (settings.BASE_DIR / "Procfile").read_text()
    read = set(re.findall(r"\$\{([A-Z_]+):-([^}]*)\}", procfile))
    assert read
    assert sorted(LISTED.findall(BY_PROCFILE)) == sorted(read)


def test_listed_defaults_are_correct() -> None:
    defaults = {name: value for name, value in LISTED.findall(BY_SETTINGS) if value}
    assert not set(NEEDED) & set(defaults)
    assert settings_of(**defaults) == settings_of()


@pytest.mark.slow
@pytest.mark.parametrize("variables", [{}, {"EMAIL_URL": ""}], ids=["missing", "empty"])
def test_mail_is_not_printed_without_a_mail_server(variables: dict[str, str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "EMAIL_URL"} | variables
    command = [sys.executable, "manage.py", "sendtestemail", "jane@example.org"]
    done = subprocess.run(
        command, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout + done.stderr == ""


def test_mail_comes_from_the_one_sender_setting() -> None:
    values = settings_of(EMAIL_FROM="us@example.org", DEFAULT_FROM_EMAIL="them@example.org")
    assert {values["DEFAULT_FROM_EMAIL"], values["SERVER_EMAIL"]} == {"'us@example.org'"}
