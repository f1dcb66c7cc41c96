"""The service's commands."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command, load_command_class
from django.db import OperationalError, connection, transaction
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from simservice.operations import commands

COMMANDS = sorted(
    (path.parts[-4], path.stem) for path in Path(settings.BASE_DIR).glob("*/management/commands/[a-z]*.py")
)


def test_commands_are_found() -> None:
    assert ("jobs", "registerbuild") in COMMANDS


# The framework's command chooses the checks that concern the database.
@pytest.mark.parametrize(("app", "name"), [each for each in COMMANDS if each[1] != "migrate"])
def test_a_command_starts_without_the_checks_that_import_all_pages(app: str, name: str) -> None:
    assert load_command_class(app, name).requires_system_checks == ()


def ping_redis() -> None:
    Redis(port=1).ping()


def wait_for_redis() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        Redis(port=silent.getsockname()[1], socket_timeout=0.1, retry=Retry(NoBackoff(), 0)).ping()


def ask_postgresql() -> None:
    raise OperationalError("connection refused\n\tIs the server running?")


def divide() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (ask_postgresql, "PostgreSQL failed: connection refused. `python manage.py doctor` checks"),
        (ping_redis, "Redis failed: Error 111 connecting to localhost:1. "),
        (wait_for_redis, "Redis failed: Timeout reading from socket. "),
    ],
)
def test_a_command_without_a_server_ends_with_one_line(
    command: Callable[[], None],
    line: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commands, "execute_from_command_line", lambda _: command())
    assert commands.execute(["manage.py", "any"]) == 1
    written = capsys.readouterr().err
    assert written.startswith(line)
    assert written.count("\n") == 1


@pytest.mark.parametrize(("command", "option"), [(divide, "--all"), (ask_postgresql, "--traceback")])
def test_other_errors_of_a_command_are_raised(
    command: Callable[[], None], option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "execute_from_command_line", lambda _: command())
    with pytest.raises((ZeroDivisionError, OperationalError)):
        commands.execute(["manage.py", "any", option])


@pytest.mark.django_db
def test_a_command_names_a_schema_that_does_not_match(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Django's function would also configure logging again, to this test's standard error.
    monkeypatch.setattr(commands, "execute_from_command_line", lambda _: call_command("createkey", "demo"))
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE billing_account RENAME name TO not_yet")
        assert commands.execute(["manage.py", "createkey", "demo"]) == 1
        transaction.set_rollback(True)
    assert capsys.readouterr().err.startswith("The schema of the database does not match this version: column ")
