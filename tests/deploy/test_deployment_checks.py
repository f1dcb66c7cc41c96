"""The shipped deployments pass `manage.py check --deploy`."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from django.conf import settings

DEPLOY = Path(settings.BASE_DIR) / "deploy"
SECRET = "0123456789abcdef" * 4
MAIL = {"EMAIL_URL": "smtp+tls://user:password@mail.example.org:587"}
# What the how-tos tell operators to write
ENV_FILE = MAIL | {
    "DOMAIN": "sim.example.org",
    "ACME_EMAIL": "a@example.org",
    **dict.fromkeys(("SECRET_KEY", "POSTGRES_PASSWORD", "REDIS_PASSWORD", "STORAGE_PASSWORD"), SECRET),
}
KUBERNETES_SECRET = MAIL | {
    "SECRET_KEY": SECRET,
    "DATABASE_URL": f"postgresql://simservice:{SECRET}@db.example.org/simservice?sslmode=require",
    "REDIS_URL": f"rediss://:{SECRET}@redis.example.org:6379/0",
    "ARTIFACTS_ACCESS_KEY_ID": "simservice",
    "ARTIFACTS_SECRET_ACCESS_KEY": SECRET,
}


def interpolated(text: str) -> str:
    """Replace `${NAME}`, `${NAME:-default}` and `${NAME:?error}`, as Compose does."""
    while match := re.search(r"\$\{(\w+)(?::([-?])([^${}]*))?\}", text):
        name, operator, rest = match.groups()
        text = text.replace(match.group(), ENV_FILE.get(name) or (rest if operator == "-" else ""))
    return text


def compose() -> dict[str, str]:
    """Return the environment of the service in Compose."""
    given = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["x-service"]["environment"]
    return ENV_FILE | {name: interpolated(value) for name, value in given.items()}


def kubernetes() -> dict[str, str]:
    """Return the environment of the service on Kubernetes."""
    values: dict[str, str] = yaml.safe_load((DEPLOY / "kubernetes" / "settings.yaml").read_text())["data"]
    return KUBERNETES_SECRET | values


@pytest.mark.parametrize("variables", [compose, kubernetes], ids=lambda each: each.__name__)
def test_the_deployment_causes_no_warning(variables: Callable[[], dict[str, str]]) -> None:
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "INFO"]
    environment = variables() | {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        command, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
