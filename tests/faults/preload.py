"""Imports and probes done once, before fault workers are forked, so that each starts quickly."""

import django

django.setup()

from jobs.execution import runner  # noqa: E402 - needs the settings
from simservice.celery import app  # noqa: E402
from tests.faults import points, variants  # noqa: E402, F401

app.finalize(auto=True)
runner.sandbox()
