"""`openapi [--check]`: write docs/openapi.json, or tell whether it is what the code says."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from drf_spectacular.drainage import GENERATOR_STATS

from simservice.api.openapi import document_text

PLACE = settings.BASE_DIR / "docs" / "openapi.json"


class Command(BaseCommand):
    help = "Writes docs/openapi.json from the code."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true", help="write nothing; fail when the file differs")

    def handle(self, *args: Any, check: bool, **options: Any) -> None:
        text = document_text()
        if GENERATOR_STATS:
            raise CommandError("The document could be made only with the complaints above.")
        if not check:
            PLACE.write_text(text, encoding="utf-8")
        elif not PLACE.exists() or PLACE.read_text(encoding="utf-8") != text:
            raise CommandError("docs/openapi.json is not what the code says; run `make openapi`.")
