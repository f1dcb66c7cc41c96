"""`reencrypt`: encrypt all stored secrets with the current key, so that old keys can be removed."""

from collections.abc import Callable, Iterable
from typing import Any

from django.core.management.base import CommandError
from redis.exceptions import RedisError

from dashboard.login.adapters import encrypted_factors
from jobs.artifacts.credentials import encrypted_credentials
from simservice import encryption
from simservice.encryption import EncryptedValue, Purpose
from simservice.operations.commands import BaseCommand
from webhooks.endpoints import encrypted_secrets

STORED: dict[Purpose, Callable[[], Iterable[EncryptedValue]]] = {
    Purpose.SECOND_FACTORS: encrypted_factors,
    Purpose.WEBHOOK_SECRETS: encrypted_secrets,
    Purpose.GAME_CREDENTIALS: encrypted_credentials,
}
UNREADABLE = """No configured key decrypts these values, so they are unchanged:
  {names}
Add the key that encrypted them to SECRET_KEY_FALLBACKS, then run the command again."""
REDIS_UNAVAILABLE = (
    "Redis does not respond, so game credentials may still be encrypted with an old key. Run the command again."
)


class Command(BaseCommand):
    help = (
        "Encrypts second factors, webhook secrets and game credentials with the current key. Safe to interrupt and "
        "repeat. Exits with status 1 and lists the values that no configured key decrypts."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        unreadable = []
        for purpose, stored in STORED.items():
            try:
                summary = encryption.reencrypt(purpose, stored)
            except RedisError as error:
                raise CommandError(REDIS_UNAVAILABLE) from error
            self.stdout.write(f"{purpose}: {summary}")
            unreadable += summary.unreadable
        if unreadable:
            raise CommandError(UNREADABLE.format(names="\n  ".join(unreadable)))
