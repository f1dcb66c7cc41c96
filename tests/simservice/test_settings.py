"""Starting without what has no safe default."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping

import pytest
from django.conf import settings


def start_without(name: str) -> subprocess.CompletedProcess[str]:
    """Start Django in a process that lacks one setting."""
    return start({key: value for key, value in os.environ.items() if key != name})


def start(environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Start Django in a process of its own."""
    command = [sys.executable, "manage.py", "check"]
    return subprocess.run(
        command, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", ["SECRET_KEY", "DATABASE_URL", "REDIS_URL"])
def test_a_missing_setting_stops_the_start_with_a_sentence(name: str) -> None:
    done = start_without(name)
    assert done.returncode != 0
    assert f"{name} is not set." in done.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ARTIFACTS_ENDPOINT_URL": "http://s3"}, "ARTIFACTS_BUCKET is not set"),
        ({"ARTIFACTS_BUCKET": "b", "ARTIFACTS_ACCESS_KEY_ID": "a"}, "go together"),
    ],
    ids=["no bucket", "half a key"],
)
def test_half_of_a_bucket_stops_the_start_with_a_sentence(given: dict[str, str], told: str) -> None:
    done = start(os.environ | given)
    assert done.returncode != 0
    assert told in done.stderr


def test_every_setting_is_listed_with_its_default() -> None:
    read = set()
    for line in (settings.BASE_DIR / "simservice" / "settings.py").read_text().splitlines():
        for call in ("env.str(", "env.int(", "env.bool(", "env.list(", "required("):
            if call in line and f'{call}"' in line:
                read.add(line.split(f'{call}"')[1].split('"')[0])
    listed = (settings.BASE_DIR / ".env.example").read_text()
    assert read
    assert [name for name in sorted(read) if f"\n{name}=" not in listed and f"\n#{name}=" not in listed] == []


LISTED = re.compile(r"^#([A-Z_]+)=(\S+)$", re.MULTILINE)


@pytest.mark.parametrize(("name", "default"), LISTED.findall((settings.BASE_DIR / ".env.example").read_text()))
def test_a_listed_default_is_the_real_one(name: str, default: str) -> None:
    real = getattr(settings, name, None)
    if isinstance(real, int | float | str) and not isinstance(real, bool):
        assert default == str(real)
