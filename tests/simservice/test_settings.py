"""Settings: required ones, defaults, and their list in `.env.example`."""

import ast
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from django.conf import settings
from honcho.environ import parse_procfile

PROBLEM = re.compile(r"^- (.*)$", re.MULTILINE)
SETTINGS = settings.BASE_DIR / "simservice" / "settings.py"
PROCESSES = parse_procfile((settings.BASE_DIR / "Procfile").read_text()).processes


def change_environment(monkeypatch: pytest.MonkeyPatch, changes: Mapping[str, str | None]) -> None:
    """Change environment variables; None removes one."""
    for name, value in changes.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"SECRET_KEY": None}, "SECRET_KEY is not set."),
        ({"DATABASE_URL": None}, "DATABASE_URL is not set."),
        ({"REDIS_URL": ""}, "REDIS_URL is not set."),
        ({"DATABASE_URL": "mysql://any/any"}, "DATABASE_URL must be the URL of a PostgreSQL database"),
        ({"DATABASE_URL": "postgresql://a:secret@any:port/any"}, "DATABASE_URL is not a valid URL."),
        ({"DATABASE_URL": "postgresql://secret@any"}, "DATABASE_URL does not name a database."),
        ({"REDIS_URL": "http://any"}, "REDIS_URL is not a valid URL."),
        ({"REDIS_URL": "redis://:secret/secret@any:6379/0"}, "REDIS_URL is not a valid URL."),
        ({"REDIS_URL": "redis://any?socket_timeout=secret"}, "REDIS_URL is not a valid URL."),
        ({"EMAIL_URL": "mail.example.org"}, "EMAIL_URL is not a valid URL."),
        ({"PUBLIC_BASE_URL": "sim.example.org"}, "PUBLIC_BASE_URL must be an address such as"),
        ({"PUBLIC_BASE_URL": "https://[::1"}, "PUBLIC_BASE_URL must be an address such as"),
        ({"PUBLIC_BASE_URL": "https://localhost:99999"}, "PUBLIC_BASE_URL must be an address such as"),
        (
            {"ARTIFACTS_BUCKET": "b", "ARTIFACTS_ENDPOINT_URL": "s3:9000"},
            "ARTIFACTS_ENDPOINT_URL must be an address",
        ),
        ({"ARTIFACTS_ENDPOINT_URL": "http://s3"}, "ARTIFACTS_BUCKET is not set"),
        ({"ARTIFACTS_BUCKET": "b", "ARTIFACTS_ACCESS_KEY_ID": "a"}, "Set both ARTIFACTS_ACCESS_KEY_ID and"),
        (
            {"CSRF_TRUSTED_ORIGINS": "https://a.example,b.example"},
            "CSRF_TRUSTED_ORIGINS contains 'b.example', which",
        ),
        (
            {"CSRF_TRUSTED_ORIGINS": "https://a.example/"},
            "CSRF_TRUSTED_ORIGINS contains 'https://a.example/', which",
        ),
        ({"ALLOWED_HOSTS": "https://a.example"}, "ALLOWED_HOSTS contains 'https://a.example', which is not a host"),
        ({"ALLOWED_HOSTS": "a.example:443"}, "ALLOWED_HOSTS contains 'a.example:443', which is not a host"),
        ({"WEBHOOK_ALLOWED_ADDRESSES": "localhost"}, "WEBHOOK_ALLOWED_ADDRESSES contains 'localhost', which"),
        ({"WEBHOOK_ALLOWED_ADDRESSES": "a:65536"}, "WEBHOOK_ALLOWED_ADDRESSES contains 'a:65536', which"),
        ({"FOOTER_LINKS": "Terms"}, "FOOTER_LINKS contains 'Terms', which is not a label and a web address"),
        ({"FOOTER_LINKS": "a=javascript:b"}, "FOOTER_LINKS contains 'a=javascript:b', which"),
        ({"MAX_QUEUE_LENGTH": "-1"}, "MAX_QUEUE_LENGTH is -1; it must be at least 0."),
        ({"SIGNUP_CREDITS": str(10**12 + 1)}, "SIGNUP_CREDITS is 1000000000001; it must be at most 1000000000000."),
        ({"LEASE_SECONDS": "soon"}, "LEASE_SECONDS is 'soon'; it must be a whole number."),
        ({"MIN_TARGET_ERROR": "-0.1"}, "MIN_TARGET_ERROR is -0.1; it must be at least 0."),
        ({"DEBUG": "maybe"}, "DEBUG is 'maybe'; it must be true or false."),
        ({"SANDBOX": "off"}, "SANDBOX is 'off'; it must be one of: required, auto."),
        ({"API_RESOURCE": "my sims"}, "API_RESOURCE is 'my sims'; it must be lower-case letters"),
        ({"WEBHOOK_CA_FILE": "/missing.pem"}, "WEBHOOK_CA_FILE is '/missing.pem', which is not a file."),
        ({"GIT_BRANCHES": ""}, "GIT_BRANCHES is empty"),
        ({"GAME_API_HOSTS": "us.battle.net,10.0.0.1"}, "GAME_API_HOSTS contains '10.0.0.1', which is not a public"),
        ({"HEARTBEAT_SECONDS": "15"}, "HEARTBEAT_SECONDS is 15; it must be less than LEASE_SECONDS (15)."),
        ({"HSTS_PRELOAD": "true"}, "HSTS_SECONDS is 0, so"),
        ({"PUBLIC_BASE_URL": "https://sim.example.org"}, "ALLOWED_HOSTS does not contain the host"),
        (
            {"PUBLIC_BASE_URL": "http://localhost", "SECURE_COOKIES": "0", "SSL_REDIRECT": "1"},
            "PUBLIC_BASE_URL begins with http://, but SSL_REDIRECT",
        ),
        ({"PUBLIC_BASE_URL": "http://localhost"}, "PUBLIC_BASE_URL begins with http://, but browsers"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_wrong_setting_is_reported(
    changes: dict[str, str | None],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change_environment(monkeypatch, changes)
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(SETTINGS))
    output = capsys.readouterr().err
    assert stopped.value.code == 2
    assert [found.startswith(problem) for found in PROBLEM.findall(output)] == [True], output
    assert "secret" not in output


@pytest.mark.parametrize("line", [*PROCESSES.values(), "python manage.py check"], ids=[*PROCESSES, "manage"])
def test_every_process_lists_all_problems_and_ends(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"SECRET_KEY": None, "REDIS_URL": None, "DEBUG": "maybe", "HEARTBEAT_SECONDS": "99"}
    wrong["GAME_API_HOSTS"] = "us.battle.net,10.0.0.1"
    change_environment(monkeypatch, wrong)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=settings.BASE_DIR,
        env=os.environ | {"PATH": path, "PORT": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert len(PROBLEM.findall(done.stderr)) == 5
    assert done.stderr.startswith("The settings have 5 problems:\n")
    assert done.stderr.count(".env.example lists all settings.") == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"PUBLIC_BASE_URL": "https://sim.example.org", "ALLOWED_HOSTS": ".example.org"},
        {"PUBLIC_BASE_URL": "http://[::1]:8000/", "SECURE_COOKIES": "false"},
        {"PUBLIC_BASE_URL": "http://localhost", "DEBUG": "true"},
        {"PUBLIC_BASE_URL": "https://anything.example", "ALLOWED_HOSTS": "*"},
        {"PUBLIC_BASE_URL": "https://b.example", "ALLOWED_HOSTS": "my_host, b.example, [::1], 10.0.0.1,"},
        {"HSTS_SECONDS": "60", "HSTS_PRELOAD": "true", "SSL_REDIRECT": "on"},
        {"CSRF_TRUSTED_ORIGINS": "https://*.example.org,http://[::1]:8000"},
        {"WEBHOOK_ALLOWED_ADDRESSES": "127.0.0.1:8443,[::1]:8443,my_receiver:65535"},
        {"DATABASE_URL": "postgresql:///?service=any"},
        {"REDIS_URL": "unix:///run/redis.sock", "DATABASE_URL": "postgresql:///any", "DEBUG": "YES"},
    ],
    ids=lambda changes: "-".join(changes.values()),
)
def test_valid_settings_are_accepted(changes: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    change_environment(monkeypatch, changes)
    runpy.run_path(str(SETTINGS))


def test_a_link_has_a_label_and_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    change_environment(
        monkeypatch, {"FOOTER_LINKS": "Terms of use = https://a.example/t?b=c, Source=http://d.example"}
    )
    links = [("Terms of use", "https://a.example/t?b=c"), ("Source", "http://d.example")]
    assert runpy.run_path(str(SETTINGS))["FOOTER_LINKS"] == links


def test_spaces_and_empty_entries_of_lists_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    change_environment(monkeypatch, {"SECRET_KEY_FALLBACKS": "older, oldest ,,"})
    assert runpy.run_path(str(SETTINGS))["SECRET_KEY_FALLBACKS"] == ["older", "oldest"]


EXAMPLE = (settings.BASE_DIR / ".env.example").read_text()
BY_SETTINGS, _, BY_PROCFILE = EXAMPLE.partition("# For the Procfile\n")
LISTED = re.compile(r"^#?([A-Z][A-Z0-9_]*)=(.*)$", re.MULTILINE)
NEEDED = ("SECRET_KEY", "DATABASE_URL", "REDIS_URL")


def names_read(source: str) -> list[str]:
    """Return the settings that a program reads with `env.…("NAME")`."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and node.args]
    return [
        str(call.args[0].value)
        for call in calls
        if isinstance(call.args[0], ast.Constant) and re.fullmatch(r"env\.\w+", ast.unparse(call.func))
    ]


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


@pytest.mark.slow
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


def test_a_value_that_begins_with_a_dollar_sign_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDENTIALS_KEY", "$ecret")
    monkeypatch.setenv("SECRET_KEY_FALLBACKS", "$HOME,$$")
    values = runpy.run_path(str(SETTINGS))
    assert (values["CREDENTIALS_KEY"], values["SECRET_KEY_FALLBACKS"]) == ("$ecret", ["$HOME", "$$"])


@pytest.mark.slow
def test_an_empty_value_is_the_default() -> None:
    names = ("DATA_DIR", "SERVICE_BRAND", "SANDBOX", "DEBUG", "LEASE_SECONDS", "MIN_TARGET_ERROR", "SIGNUP_PLAN")
    assert settings_of(**dict.fromkeys(names, "")) == settings_of()


def test_mail_comes_from_the_one_sender_setting() -> None:
    values = settings_of(EMAIL_FROM="us@example.org", DEFAULT_FROM_EMAIL="them@example.org")
    assert {values["DEFAULT_FROM_EMAIL"], values["SERVER_EMAIL"]} == {"'us@example.org'"}
