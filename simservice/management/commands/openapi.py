"""`openapi [--check]`: write docs/openapi.json, or check that it is up to date."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from drf_spectacular.drainage import GENERATOR_STATS

from simservice.api.openapi import document_text
from simservice.operations.commands import BaseCommand

DOCUMENT = settings.BASE_DIR / "docs" / "openapi.json"


class Command(BaseCommand):
    help = "Writes docs/openapi.json from the code."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is out of date")

    def handle(self, *args: Any, check: bool, **options: Any) -> None:
        text = document_text()
        if GENERATOR_STATS:
            raise CommandError("The document was not written because of the warnings above.")
        if not check:
            DOCUMENT.write_text(text, encoding="utf-8")
        elif not DOCUMENT.exists() or DOCUMENT.read_text(encoding="utf-8") != text:
            raise CommandError("docs/openapi.json is out of date. Run `make openapi`.")
