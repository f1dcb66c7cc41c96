"""Rotating SECRET_KEY: nothing is lost while the old key is a fallback, nor after `reencrypt` without it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from cryptography.fernet import InvalidToken
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import Settings
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from clients import once
from clients.audit import SYSTEM
from clients.models import Client, Membership
from dashboard import adapters
from dashboard.management.commands import reencrypt
from jobs import credentials
from jobs.credentials import GameCredentials
from simservice import encryption
from simservice.api.pagination import make_cursor, read_cursor
from simservice.encryption import Purpose, Sealed
from simservice.redis.client import redis
from tests.concurrency import at_once
from tests.dashboard.test_accounts import PASSWORD, code_of, log_in
from tests.factories import make_client, make_member
from webhooks import endpoints
from webhooks.models import Endpoint

pytestmark = pytest.mark.django_db
PAIR = GameCredentials(client_id="an id", client_secret="a secret")
JOB = 77


@pytest.fixture(autouse=True)
def _old_key(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.SECRET_KEY = "the old key"


@dataclass(frozen=True)
class World:
    """What is encrypted and signed, made with the old key, and how each is seen to work."""

    place: Membership
    totp_secret: str
    recovery_codes: list[str]
    client: Client
    webhook_secrets: list[str]
    browser: HttpClient

    def signs_the_same(self) -> bool:
        """Return whether deliveries still carry the same signatures."""
        endpoint = Endpoint.objects.get(client=self.client)
        return endpoints.secrets_of(endpoint, now=timezone.now()) == self.webhook_secrets

    def lets_in(self) -> bool:
        """Return whether a login with password and TOTP code succeeds."""
        http = HttpClient()
        log_in(http, self.place.user.email)
        code = code_of(self.totp_secret)
        # A code can be used once, and the next one is half a minute away.
        cache.delete(f"allauth.mfa.totp.used?user={self.place.user.pk}&code={code}")
        http.post("/accounts/2fa/authenticate/", {"code": code})
        return http.get("/accounts/profile/").status_code == 200

    def knows_recovery_codes(self) -> bool:
        """Return whether the recovery codes are still the same."""
        found = Authenticator.objects.get(type=Authenticator.Type.RECOVERY_CODES)
        return bool(RecoveryCodes(found).generate_codes() == self.recovery_codes)

    def works(self) -> bool:
        """Return whether everything that is encrypted can be used."""
        fetched = credentials.fetch(JOB, seconds=60)
        return self.signs_the_same() and self.lets_in() and self.knows_recovery_codes() and fetched == PAIR


@pytest.fixture
def world() -> World:
    place = make_member()
    place.user.set_password(PASSWORD)
    place.user.save()
    browser = HttpClient()
    log_in(browser, place.user.email)
    secret = totp.generate_totp_secret()
    totp.TOTP.activate(place.user, secret)
    codes = RecoveryCodes.activate(place.user).generate_codes()
    client = make_client(place.account)
    old = endpoints.install(client, "https://hooks.example.com/", by=SYSTEM)
    new = rotate(client)
    credentials.store(JOB, PAIR, seconds=60)
    return World(place, secret, codes, client, [old, new], browser)


def rotate(client: Client) -> str:
    """Rotate a webhook's secret so that both are kept, and return the new one."""
    return endpoints.rotate(client, by=SYSTEM, overlap=timedelta(days=1))


def run() -> str:
    """Run the command; return what it prints. Raises CommandError."""
    out = StringIO()
    call_command("reencrypt", stdout=out)
    return out.getvalue()


def stored() -> list[Any]:
    """Return everything encrypted as it is stored."""
    return [
        *Authenticator.objects.order_by("pk").values_list("data", flat=True),
        *Endpoint.objects.order_by("pk").values_list("secret", "old_secret"),
        *(redis().get(credentials.key_of(job)) for job in credentials.kept()),
    ]


def test_a_rotation_loses_nothing(world: World, settings: Settings) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    assert world.works()
    assert run().splitlines() == [
        "second factors: 2 re-encrypted, 0 already current, 0 unreadable",
        "webhook secrets: 2 re-encrypted, 0 already current, 0 unreadable",
        "game credentials: 1 re-encrypted, 0 already current, 0 unreadable",
    ]
    settings.SECRET_KEY_FALLBACKS = []
    assert world.works()


def test_without_the_command_the_old_key_is_needed(world: World, settings: Settings) -> None:
    """The test above can fail."""
    settings.SECRET_KEY = "the new key"
    assert not world.lets_in()
    assert credentials.fetch(JOB, seconds=60) is None
    with pytest.raises(InvalidToken):
        world.signs_the_same()


def test_sessions_cursors_and_forms_outlive_a_rotation(world: World, settings: Settings) -> None:
    cursor, form = make_cursor(account_id=1, last_id=5), once.new_form(1, "key")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    assert read_cursor(cursor, account_id=1) == 5
    once.require_unused(form, 1, "key")
    assert world.browser.get("/accounts/profile/").status_code == 200
    settings.SECRET_KEY_FALLBACKS = []
    assert world.browser.get("/accounts/profile/").status_code == 200, "used since, so it has the new key's hash"


def test_running_it_again_changes_nothing(world: World, settings: Settings) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    run()
    before = stored()
    assert "0 re-encrypted, 2 already current" in run()
    assert stored() == before


def test_a_wrong_old_key_is_refused_and_nothing_lost(world: World, settings: Settings) -> None:
    before = stored()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["a wrong key"]
    with pytest.raises(CommandError) as refused:
        run()
    told = str(refused.value)
    first, second = Authenticator.objects.order_by("pk").values_list("pk", flat=True)
    for name in (f"factor {first}", f"factor {second}", f"secret of client {world.client.pk}", f"of job {JOB}"):
        assert f"{name}\n" in told
    assert not [text for text in (world.totp_secret, *world.webhook_secrets, "gAAAA") if text in told]
    assert stored() == before
    settings.SECRET_KEY_FALLBACKS = ["a wrong key", "the old key"]
    run()
    settings.SECRET_KEY_FALLBACKS = []
    assert world.works()


def test_what_can_be_read_is_done_beside_what_cannot(world: World, settings: Settings) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    Endpoint.objects.update(old_secret="not encrypted at all \u00e9")
    with pytest.raises(CommandError, match=f"old webhook secret of client {world.client.pk}"):
        run()
    settings.SECRET_KEY_FALLBACKS = []
    assert world.lets_in()


def test_a_login_without_the_key_is_told_so(world: World, settings: Settings) -> None:
    settings.SECRET_KEY = "the new key"
    http = HttpClient()
    log_in(http, world.place.user.email)
    answer = http.post("/accounts/2fa/authenticate/", {"code": code_of(world.totp_secret)})
    assert (answer.status_code, "cannot be checked" in answer.content.decode()) == (503, True)
    settings.SECRET_KEY = "the old key"
    assert world.lets_in()


def test_credentials_keep_their_time_to_live(world: World, settings: Settings) -> None:
    redis().expire(credentials.key_of(JOB), 5000)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    run()
    assert 4990 <= int(str(redis().ttl(credentials.key_of(JOB)))) <= 5000


def test_redis_away_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "redis", lambda: Redis(port=1, retry=Retry(NoBackoff(), 0)))
    with pytest.raises(CommandError, match="Redis does not answer"):
        run()


def test_keys_of_their_own_can_be_given_up(world: World, settings: Settings) -> None:
    """A deployment that has set them goes over to SECRET_KEY alone."""
    settings.WEBHOOK_SECRETS_KEYS, settings.CREDENTIALS_KEY = ["hooks"], "games"
    assert "2 re-encrypted" in run()
    settings.SECRET_KEY_FALLBACKS = ["hooks", "games"]
    settings.WEBHOOK_SECRETS_KEYS, settings.CREDENTIALS_KEY = [], ""
    run()
    settings.SECRET_KEY_FALLBACKS = []
    assert world.works()


def test_more_than_a_batch_is_read_to_its_end(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "BATCH", 2)
    for number in range(5):
        totp.TOTP.activate(User.objects.create(username=f"user-{number}"), "secret")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    assert "second factors: 5 re-encrypted" in run()


@contextmanager
def beside(act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Do something on a connection of its own, once, after the first value was read and before it is replaced."""
    waiting = [act]

    renewed = encryption.renewed

    def interrupted(sealed: str, *, purpose: Purpose) -> str:
        if waiting:
            at_once(1, waiting.pop())
        return renewed(sealed, purpose=purpose)

    with monkeypatch.context() as patch:
        patch.setattr(encryption, "renewed", interrupted)
        yield
    assert not waiting


def only(monkeypatch: pytest.MonkeyPatch, purpose: Purpose, stored: Callable[[], Iterator[Sealed]]) -> None:
    """Have the command look at one kind of secrets."""
    monkeypatch.setattr(reencrypt, "STORED", {purpose: stored})


def test_an_old_text_written_back_is_encrypted_again(
    world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    read_before = [Endpoint.objects.values("secret", "old_secret").get()]

    def stored() -> Iterator[Sealed]:
        yield from endpoints.sealed_secrets()
        if read_before:
            Endpoint.objects.update(**read_before.pop())

    only(monkeypatch, Purpose.WEBHOOK_SECRETS, stored)
    run()
    settings.SECRET_KEY_FALLBACKS = []
    assert world.signs_the_same()


@pytest.mark.django_db(transaction=True)
def test_a_second_factor_replaced_meanwhile_stays(
    world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    only(monkeypatch, Purpose.SECOND_FACTORS, adapters.sealed_factors)
    factor = Authenticator.objects.get(type=Authenticator.Type.TOTP)
    fresh = {"secret": encryption.seal("another", purpose=Purpose.SECOND_FACTORS)}
    with beside(lambda: Authenticator.objects.filter(pk=factor.pk).update(data=fresh), monkeypatch):
        run()
    factor.refresh_from_db()
    assert factor.data == fresh


@pytest.mark.django_db(transaction=True)
def test_a_recovery_code_used_meanwhile_stays_used(
    world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    Authenticator.objects.filter(type=Authenticator.Type.TOTP).delete()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    only(monkeypatch, Purpose.SECOND_FACTORS, adapters.sealed_factors)
    factor = Authenticator.objects.get(type=Authenticator.Type.RECOVERY_CODES)
    with beside(lambda: RecoveryCodes(factor).validate_code(world.recovery_codes[0]), monkeypatch):
        assert "1 re-encrypted" in run()
    settings.SECRET_KEY_FALLBACKS = []
    factor.refresh_from_db()
    assert RecoveryCodes(factor).get_unused_codes() == world.recovery_codes[1:]


@pytest.mark.django_db(transaction=True)
def test_a_webhook_secret_rotated_meanwhile_stays(
    world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    only(monkeypatch, Purpose.WEBHOOK_SECRETS, endpoints.sealed_secrets)
    fresh: list[str] = []
    with beside(lambda: fresh.append(rotate(world.client)), monkeypatch):
        run()
    settings.SECRET_KEY_FALLBACKS = []
    endpoint = Endpoint.objects.get(client=world.client)
    assert endpoints.secrets_of(endpoint, now=timezone.now()) == [world.webhook_secrets[1], *fresh]


def test_credentials_replaced_or_forgotten_meanwhile_stay_so(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = GameCredentials(client_id="another", client_secret="another")
    changes: list[tuple[Callable[[], object], object]] = [
        (lambda: credentials.store(JOB, other, seconds=60), other),
        (lambda: credentials.forget(JOB), None),
    ]
    only(monkeypatch, Purpose.GAME_CREDENTIALS, credentials.sealed_credentials)
    for change, expected in changes:
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the old key", []
        credentials.store(JOB, PAIR, seconds=60)
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
        with beside(change, monkeypatch):
            run()
        assert credentials.fetch(JOB, seconds=60) == expected
