"""Rotation of SECRET_KEY: no secret is lost, with the old key as a fallback or after `reencrypt` without it."""

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
from django.core import mail
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import Settings
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from clients import form_tokens
from clients.audit import SYSTEM
from clients.errors import InvalidFormToken
from clients.models import Client
from dashboard.login import adapters
from dashboard.management.commands import reencrypt
from jobs.artifacts import credentials
from jobs.artifacts.credentials import GameCredentials
from simservice import encryption
from simservice.api.errors import InvalidCursor
from simservice.api.pagination import make_cursor, read_cursor
from simservice.encryption import EncryptedValue, Purpose
from simservice.redis.client import redis
from tests.concurrency import at_once
from tests.dashboard.mailing import link_in, write_mails
from tests.dashboard.signing_in import code_of, is_logged_in, log_in, make_user
from tests.dashboard.summaries import make_completed_job
from tests.factories import make_account, make_client, make_key
from webhooks import endpoints
from webhooks.models import Endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fast_hasher")]
PAIR = GameCredentials(client_id="an id", client_secret="a secret")
JOB = 77


@pytest.fixture(autouse=True)
def _old_key(settings: Settings) -> None:
    settings.SECRET_KEY = "the old key"


@dataclass(frozen=True)
class Secrets:
    """Secrets of each kind, encrypted with the old key, and checks that each still works."""

    user: User
    totp_secret: str
    recovery_codes: list[str]
    client: Client
    webhook_secrets: list[str]
    browser: HttpClient

    def webhooks_work(self) -> bool:
        """Return whether deliveries still have the same signatures."""
        endpoint = Endpoint.objects.get(client=self.client)
        return endpoints.secrets_of(endpoint, now=timezone.now()) == self.webhook_secrets

    def login_works(self) -> bool:
        """Return whether a login with password and TOTP code succeeds."""
        http = HttpClient()
        log_in(http, self.user.email)
        code = code_of(self.totp_secret)
        # Each code can be used once, and the next one takes half a minute.
        cache.delete(f"allauth.mfa.totp.used?user={self.user.pk}&code={code}")
        http.post("/accounts/2fa/authenticate/", {"code": code})
        return is_logged_in(http)

    def recovery_codes_work(self) -> bool:
        """Return whether the recovery codes are still the same."""
        factor = Authenticator.objects.get(type=Authenticator.Type.RECOVERY_CODES)
        return bool(RecoveryCodes(factor).generate_codes() == self.recovery_codes)

    def work(self) -> bool:
        """Return whether all secrets work."""
        has_credentials = credentials.fetch(JOB, seconds=60) == PAIR
        return self.webhooks_work() and self.login_works() and self.recovery_codes_work() and has_credentials


@pytest.fixture
def secrets() -> Secrets:
    user, browser = make_user(), HttpClient()
    log_in(browser, user.email)
    secret = totp.generate_totp_secret()
    totp.TOTP.activate(user, secret)
    codes = RecoveryCodes.activate(user).generate_codes()
    client = make_client(make_account())
    old = endpoints.install(client, "https://hooks.example.com/", by=SYSTEM)
    new = rotate(client)
    credentials.store(JOB, PAIR, seconds=60)
    return Secrets(user, secret, codes, client, [old, new], browser)


def rotate(client: Client) -> str:
    """Rotate a webhook's secret, keep the old one, and return the new one."""
    return endpoints.rotate(client, by=SYSTEM, overlap=timedelta(days=1))


def run() -> str:
    """Run the command and return its output. Raises CommandError."""
    out = StringIO()
    call_command("reencrypt", stdout=out)
    return out.getvalue()


def stored() -> list[Any]:
    """Return all encrypted values as they are stored."""
    return [
        *Authenticator.objects.order_by("pk").values_list("data", flat=True),
        *Endpoint.objects.order_by("pk").values_list("secret", "old_secret"),
        *(redis().get(credentials.key_of(job)) for job in credentials.stored_job_ids()),
    ]


def test_rotation_loses_no_secret(secrets: Secrets, settings: Settings) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    assert secrets.work()
    assert run().splitlines() == [
        "second factors: 2 re-encrypted, 0 already current, 0 unreadable",
        "webhook secrets: 2 re-encrypted, 0 already current, 0 unreadable",
        "game credentials: 1 re-encrypted, 0 already current, 0 unreadable",
    ]
    settings.SECRET_KEY_FALLBACKS = []
    assert secrets.work()


def test_without_the_command_secrets_need_the_old_key(secrets: Secrets, settings: Settings) -> None:
    """Shows that the test above can fail."""
    settings.SECRET_KEY = "the new key"
    assert not secrets.login_works()
    assert credentials.fetch(JOB, seconds=60) is None
    with pytest.raises(InvalidToken):
        secrets.webhooks_work()


def test_sessions_cursors_and_forms_survive_a_rotation(secrets: Secrets, settings: Settings) -> None:
    cursor, form = make_cursor(account_id=1, last_id=5), form_tokens.issue(1, "key")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    assert read_cursor(cursor, account_id=1) == 5
    form_tokens.require_unused(form, 1, "key")
    assert secrets.browser.get("/accounts/profile/").status_code == 200
    settings.SECRET_KEY_FALLBACKS = []
    assert secrets.browser.get("/accounts/profile/").status_code == 200, (
        "the request above renewed the session with the new key"
    )


def test_processes_that_have_not_restarted_read_what_the_others_write(secrets: Secrets, settings: Settings) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    run()
    cursor, form = make_cursor(account_id=1, last_id=5), form_tokens.issue(1, "key")
    browser = HttpClient()
    log_in(browser, make_user().email)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the old key", ["the new key"]
    assert secrets.work()
    assert read_cursor(cursor, account_id=1) == 5
    form_tokens.require_unused(form, 1, "key")
    assert browser.get("/accounts/profile/").status_code == 200


def test_without_the_old_key_sessions_cursors_and_forms_end(secrets: Secrets, settings: Settings) -> None:
    cursor, form = make_cursor(account_id=1, last_id=5), form_tokens.issue(1, "key")
    settings.SECRET_KEY = "the new key"
    assert secrets.browser.get("/accounts/profile/").status_code == 302
    with pytest.raises(InvalidCursor):
        read_cursor(cursor, account_id=1)
    with pytest.raises(InvalidFormToken):
        form_tokens.require_unused(form, 1, "key")


@pytest.mark.parametrize("fallbacks", [["the old key"], []])
def test_a_mailed_link_works_while_the_old_key_is_known(
    secrets: Secrets, settings: Settings, fallbacks: list[str]
) -> None:
    HttpClient().post("/accounts/password/reset/", {"email": secrets.user.email})
    write_mails()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", fallbacks
    page = HttpClient().get(link_in(mail.outbox[-1]), follow=True)
    assert ("password1" in page.content.decode()) == bool(fallbacks)


def test_api_keys_and_public_links_do_not_depend_on_the_key(settings: Settings) -> None:
    _, key = make_key()
    job = make_completed_job()
    settings.SECRET_KEY = "the new key"
    http = HttpClient(headers={"authorization": f"Bearer {key}"})
    assert http.get("/v1/sim/usage").status_code == 200
    assert HttpClient().get(f"/share/{job.share_token}").status_code == 200


def test_an_interrupted_run_can_be_repeated(
    secrets: Secrets, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    renewed: list[Purpose] = []
    renew = encryption._renew

    def interrupt_the_second_webhook(encrypted: str, *, purpose: Purpose) -> str:
        if Purpose.WEBHOOK_SECRETS in renewed:
            raise KeyboardInterrupt
        renewed.append(purpose)
        return renew(encrypted, purpose=purpose)

    with monkeypatch.context() as patch:
        patch.setattr(encryption, "_renew", interrupt_the_second_webhook)
        with pytest.raises(KeyboardInterrupt):
            run()
    assert secrets.work()
    assert "webhook secrets: 1 re-encrypted, 1 already current" in run()
    settings.SECRET_KEY_FALLBACKS = []
    assert secrets.work()


def test_a_second_run_changes_nothing(secrets: Secrets, settings: Settings) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    run()
    before = stored()
    assert "0 re-encrypted, 2 already current" in run()
    assert stored() == before


def test_a_wrong_old_key_changes_nothing_and_fails(secrets: Secrets, settings: Settings) -> None:
    before = stored()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["a wrong key"]
    with pytest.raises(CommandError) as failure:
        run()
    message = str(failure.value)
    first, second = Authenticator.objects.order_by("pk").values_list("pk", flat=True)
    for name in (f"factor {first}", f"factor {second}", f"secret of client {secrets.client.pk}", f"of job {JOB}"):
        assert f"{name}\n" in message
    assert not [text for text in (secrets.totp_secret, *secrets.webhook_secrets, "gAAAA") if text in message]
    assert stored() == before
    settings.SECRET_KEY_FALLBACKS = ["a wrong key", "the old key"]
    run()
    settings.SECRET_KEY_FALLBACKS = []
    assert secrets.work()


def test_unreadable_secrets_do_not_stop_the_others(secrets: Secrets, settings: Settings) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    Endpoint.objects.update(old_secret="not encrypted at all \u00e9")
    with pytest.raises(CommandError, match=f"old webhook secret of client {secrets.client.pk}"):
        run()
    settings.SECRET_KEY_FALLBACKS = []
    assert secrets.login_works()


def test_login_without_the_key_shows_an_error(secrets: Secrets, settings: Settings) -> None:
    settings.SECRET_KEY = "the new key"
    http = HttpClient()
    log_in(http, secrets.user.email)
    response = http.post("/accounts/2fa/authenticate/", {"code": code_of(secrets.totp_secret)})
    assert (response.status_code, "cannot be checked" in response.content.decode()) == (503, True)
    settings.SECRET_KEY = "the old key"
    assert secrets.login_works()


def test_credentials_keep_their_time_to_live(secrets: Secrets, settings: Settings) -> None:
    redis().expire(credentials.key_of(JOB), 5000)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    run()
    assert 4990 <= int(str(redis().ttl(credentials.key_of(JOB)))) <= 5000


def test_the_command_fails_while_redis_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "redis", lambda: Redis(port=1, retry=Retry(NoBackoff(), 0)))
    with pytest.raises(CommandError, match="Redis does not respond"):
        run()


def test_separate_keys_can_be_replaced_by_the_secret_key(secrets: Secrets, settings: Settings) -> None:
    """A deployment removes WEBHOOK_SECRETS_KEYS and CREDENTIALS_KEY."""
    settings.WEBHOOK_SECRETS_KEYS, settings.CREDENTIALS_KEY = ["hooks"], "games"
    assert "2 re-encrypted" in run()
    settings.SECRET_KEY_FALLBACKS = ["hooks", "games"]
    settings.WEBHOOK_SECRETS_KEYS, settings.CREDENTIALS_KEY = [], ""
    run()
    settings.SECRET_KEY_FALLBACKS = []
    assert secrets.work()


def test_all_batches_are_reencrypted(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "BATCH_ROWS", 2)
    for number in range(5):
        totp.TOTP.activate(User.objects.create(username=f"user-{number}"), "secret")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    assert "second factors: 5 re-encrypted" in run()


@contextmanager
def concurrently(act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run `act` on its own connection after the first value was read and before it is replaced."""
    waiting = [act]
    renew = encryption._renew

    def interrupted(encrypted: str, *, purpose: Purpose) -> str:
        if waiting:
            at_once(1, waiting.pop())
        return renew(encrypted, purpose=purpose)

    with monkeypatch.context() as patch:
        patch.setattr(encryption, "_renew", interrupted)
        yield
    assert not waiting


def only(monkeypatch: pytest.MonkeyPatch, purpose: Purpose, stored: Callable[[], Iterator[EncryptedValue]]) -> None:
    """Make the command process only one kind of secret."""
    monkeypatch.setattr(reencrypt, "STORED", {purpose: stored})


def test_an_old_value_written_back_is_encrypted_again(
    secrets: Secrets, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    read_before = [Endpoint.objects.values("secret", "old_secret").get()]

    def stored() -> Iterator[EncryptedValue]:
        yield from endpoints.encrypted_secrets()
        if read_before:
            Endpoint.objects.update(**read_before.pop())

    only(monkeypatch, Purpose.WEBHOOK_SECRETS, stored)
    run()
    settings.SECRET_KEY_FALLBACKS = []
    assert secrets.webhooks_work()


@pytest.mark.django_db(transaction=True)
def test_a_second_factor_replaced_during_the_run_is_kept(
    secrets: Secrets, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    only(monkeypatch, Purpose.SECOND_FACTORS, adapters.encrypted_factors)
    factor = Authenticator.objects.get(type=Authenticator.Type.TOTP)
    fresh = {"secret": encryption.encrypt("another", purpose=Purpose.SECOND_FACTORS)}
    with concurrently(lambda: Authenticator.objects.filter(pk=factor.pk).update(data=fresh), monkeypatch):
        run()
    factor.refresh_from_db()
    assert factor.data == fresh


@pytest.mark.django_db(transaction=True)
def test_a_recovery_code_used_during_the_run_stays_used(
    secrets: Secrets, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    Authenticator.objects.filter(type=Authenticator.Type.TOTP).delete()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    only(monkeypatch, Purpose.SECOND_FACTORS, adapters.encrypted_factors)
    factor = Authenticator.objects.get(type=Authenticator.Type.RECOVERY_CODES)
    with concurrently(lambda: RecoveryCodes(factor).validate_code(secrets.recovery_codes[0]), monkeypatch):
        assert "1 re-encrypted" in run()
    settings.SECRET_KEY_FALLBACKS = []
    factor.refresh_from_db()
    assert RecoveryCodes(factor).get_unused_codes() == secrets.recovery_codes[1:]


@pytest.mark.django_db(transaction=True)
def test_a_webhook_secret_rotated_during_the_run_is_kept(
    secrets: Secrets, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
    only(monkeypatch, Purpose.WEBHOOK_SECRETS, endpoints.encrypted_secrets)
    fresh: list[str] = []
    with concurrently(lambda: fresh.append(rotate(secrets.client)), monkeypatch):
        run()
    settings.SECRET_KEY_FALLBACKS = []
    endpoint = Endpoint.objects.get(client=secrets.client)
    assert endpoints.secrets_of(endpoint, now=timezone.now()) == [secrets.webhook_secrets[1], *fresh]


def test_credentials_changed_during_the_run_stay_changed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = GameCredentials(client_id="another", client_secret="another")
    changes: list[tuple[Callable[[], object], object]] = [
        (lambda: credentials.store(JOB, other, seconds=60), other),
        (lambda: credentials.forget(JOB), None),
    ]
    only(monkeypatch, Purpose.GAME_CREDENTIALS, credentials.encrypted_credentials)
    for change, expected in changes:
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the old key", []
        credentials.store(JOB, PAIR, seconds=60)
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key", ["the old key"]
        with concurrently(change, monkeypatch):
            run()
        assert credentials.fetch(JOB, seconds=60) == expected
