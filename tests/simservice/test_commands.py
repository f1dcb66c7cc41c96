"""The service's commands."""

from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import load_command_class

COMMANDS = sorted(
    (path.parts[-4], path.stem) for path in Path(settings.BASE_DIR).glob("*/management/commands/[a-z]*.py")
)


def test_commands_are_found() -> None:
    assert ("jobs", "registerbuild") in COMMANDS


# The framework's command chooses the checks that concern the database.
@pytest.mark.parametrize(("app", "name"), [each for each in COMMANDS if each[1] != "migrate"])
def test_a_command_starts_without_the_checks_that_import_all_pages(app: str, name: str) -> None:
    assert load_command_class(app, name).requires_system_checks == ()
