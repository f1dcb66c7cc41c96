"""Checks of a deployment: each finds a broken part and accepts a working one."""

import smtplib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection
from environ import Env
from pytest_django import Settings
from redis import Redis

from localstack.redis_server import free_port
from simservice import clocks
from simservice.operations import doctor
from simservice.operations.doctor import Check, Finding, Level
from simservice.redis.client import redis
from tests.s3_server import S3Server
from tests.tls_server import after_ssl_request, tls_server
from tests.webhooks.receivers import make_authority, receiving

pytestmark = pytest.mark.django_db
SMTP = "django.core.mail.backends.smtp.EmailBackend"


def only(check: Check) -> Finding:
    """Return the only finding of a check."""
    (finding,) = check()
    return finding


def sql(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.parametrize(
    "check", [doctor.check_database, doctor.check_schema, doctor.check_redis, doctor.check_clock]
)
def test_working_systems_are_accepted(check: Check) -> None:
    assert only(check).level is Level.OK


def test_an_old_database_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MIN_POSTGRESQL", 990_000)
    assert only(doctor.check_database).message.endswith("is too old.")


def test_a_missing_migration_is_found() -> None:
    sql("DELETE FROM django_migrations WHERE app = 'clients' AND name LIKE '0002%'")
    finding = only(doctor.check_schema)
    assert (finding.level, finding.advice) == (Level.FAILURE, "Run `python manage.py migrate --expand`.")
    assert finding.message.startswith("Not applied: clients.0002")


def test_a_contracting_migration_can_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    sql("DELETE FROM django_migrations WHERE app = 'clients' AND name LIKE '0002%'")
    monkeypatch.setattr(doctor, "phase_of", lambda migration: "contract" if "0002" in migration.name else "expand")
    assert only(doctor.check_schema).level == Level.WARNING


def test_an_interrupted_migration_is_found() -> None:
    sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'jobs_job_pkey'::regclass")
    sql("ALTER TABLE jobs_job ADD CONSTRAINT half CHECK (attempt >= 0) NOT VALID")
    finding = only(doctor.check_schema)
    assert (finding.level, "half, jobs_job_pkey" in finding.message) == (Level.FAILURE, True)
    # Dropping one whose migration is recorded would lose it.
    assert "run `REINDEX INDEX CONCURRENTLY` for each other index" in finding.advice


def test_a_newer_schema_is_found() -> None:
    sql("INSERT INTO django_migrations (app, name, applied) VALUES ('jobs', '9999_later', now())")
    finding = only(doctor.check_schema)
    assert (finding.level, "jobs.9999_later" in finding.message) == (Level.WARNING, True)


def test_a_redis_that_refuses_writes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    redis().acl_setuser("reader", enabled=True, passwords=["+secret"], categories=["+@read"], keys=["*"])
    server = redis().connection_pool.connection_kwargs
    reader = Redis(host=server["host"], port=server["port"], username="reader", password="secret")
    monkeypatch.setattr(doctor, "redis", lambda: reader)
    finding = only(doctor.check_redis)
    assert (finding.level, "no permissions" in finding.message) == (Level.FAILURE, True)


def test_a_redis_that_evicts_keys_is_a_warning() -> None:
    redis().config_set("maxmemory-policy", "allkeys-lru")
    try:
        finding = only(doctor.check_redis)
    finally:
        redis().config_set("maxmemory-policy", "noeviction")
    assert (finding.level, "allkeys-lru" in finding.message) == (Level.WARNING, True)


@pytest.mark.parametrize(("name", "value", "normal"), [("save", "3600 1", ""), ("appendonly", "yes", "no")])
def test_a_redis_that_writes_snapshots_is_a_warning(name: str, value: str, normal: str) -> None:
    redis().config_set(name, value)
    try:
        works, finding = doctor.check_redis()
    finally:
        redis().config_set(name, normal)
    assert (works.level, finding.level) == (Level.OK, Level.WARNING)
    assert "game credentials" in finding.message


def test_a_redis_that_refuses_config_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    redis().acl_setuser(
        "managed", enabled=True, passwords=["+secret"], categories=["+@all"], commands=["-config"], keys=["*"]
    )
    server = redis().connection_pool.connection_kwargs
    managed = Redis(
        host=server["host"], port=server["port"], username="managed", password="secret", decode_responses=True
    )
    monkeypatch.setattr(doctor, "redis", lambda: managed)
    works, finding = doctor.check_redis()
    assert (works.level, finding.level) == (Level.OK, Level.OK)
    assert "unknown whether it writes snapshots" in finding.message


@pytest.mark.parametrize(("offset", "where"), [(60, "60.0 s ahead of"), (-60, "60.0 s behind")])
def test_a_wrong_clock_is_found(offset: float, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "database_time", lambda: datetime.now(UTC) - timedelta(seconds=offset))
    finding = only(doctor.check_clock)
    assert finding.level is Level.FAILURE
    assert finding.message.startswith(f"This machine's clock is {where} that of PostgreSQL")


def test_the_time_to_connect_does_not_count() -> None:
    delays = iter([4, 0])

    def clock() -> datetime:
        time.sleep(next(delays))
        return datetime.now(UTC)

    assert abs(clocks.seconds_ahead_of(clock)) < 1


@contextmanager
def bucket(folder: Path, settings: Settings, *options: str) -> Iterator[None]:
    """Store artifacts in a bucket during a block."""
    server = S3Server(folder, *options)
    server.start()
    names = {"BUCKET": "bucket", "ENDPOINT_URL": "endpoint_url", "ACCESS_KEY_ID": "access_key_id"}
    names["SECRET_ACCESS_KEY"] = "secret_access_key"
    values = {names[name.removeprefix("ARTIFACTS_")]: value for name, value in server.variables().items()}
    storage = {"BACKEND": "simservice.storages.s3.BucketStorage", "OPTIONS": values}
    settings.STORAGES = {**settings.STORAGES, "default": storage}
    try:
        yield
    finally:
        server.stop()


def test_advice_names_the_settings_of_the_environment(settings: Settings) -> None:
    settings.SECURE_HSTS_SECONDS, settings.SECURE_SSL_REDIRECT = 0, False
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = False
    advice = {finding.advice for finding in doctor.check_settings()}
    assert set(doctor.ADVICE.values()) <= advice


def test_silenced_checks_are_not_findings(settings: Settings) -> None:
    settings.SECURE_HSTS_SECONDS, settings.SECURE_HSTS_PRELOAD = 60, False
    assert not [finding for finding in doctor.check_settings() if "PRELOAD" in finding.message]


def test_a_working_storage_is_accepted_and_left_empty(tmp_path: Path, settings: Settings) -> None:
    with bucket(tmp_path, settings):
        assert only(doctor.check_storage).level is Level.OK
        assert not [path for path in (tmp_path / "artifacts").rglob("*") if path.is_file()]


def test_a_read_only_bucket_is_found(tmp_path: Path, settings: Settings) -> None:
    with bucket(tmp_path, settings, "--read-only"):
        finding = only(doctor.check_storage)
    assert finding.level is Level.FAILURE
    assert finding.message.startswith("The storage of artifacts cannot save files:")
    # rclone answers with an internal error.
    assert finding.advice == "Check its status, its log and its limits."


def test_a_folder_that_cannot_be_written_is_found(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "artifacts").write_text("a file instead of the folder")
    options = {"location": str(tmp_path / "artifacts")}
    storage = {"BACKEND": "simservice.storages.local.LocalStorage", "OPTIONS": options}
    settings.STORAGES = {**settings.STORAGES, "default": storage}
    finding = only(doctor.check_storage)
    assert (finding.level, "cannot save files" in finding.message) == (Level.FAILURE, True)
    assert finding.advice.startswith("Let this user write in")


def test_a_disk_with_space_is_accepted(settings: Settings) -> None:
    settings.SIM_DISK_BYTES = 1
    assert {finding.level for finding in doctor.check_disk()} == {Level.OK}


def test_a_full_disk_is_found(settings: Settings) -> None:
    settings.SIM_DISK_BYTES = 1 << 60
    messages = [finding.message for finding in doctor.check_disk() if finding.level is Level.FAILURE]
    assert [message.split()[0] for message in messages] == ["DATA_DIR", "TMPDIR"]
    assert all("MiB left" in message for message in messages)


def test_a_disk_that_cannot_be_used_is_found(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "file").touch()
    settings.DATA_DIR = tmp_path / "file" / "data"
    assert next(doctor.check_disk()).message.startswith("DATA_DIR cannot be used:")


def test_a_missing_mail_server_is_a_warning(settings: Settings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
    assert only(doctor.check_mail).level is Level.WARNING


@pytest.mark.parametrize("port", [0, 1])
def test_a_mail_server_that_does_not_respond_is_found(port: int, settings: Settings) -> None:
    settings.EMAIL_BACKEND, settings.EMAIL_HOST, settings.EMAIL_PORT = SMTP, "127.0.0.1", port or free_port()
    assert only(doctor.check_mail).message.startswith("The mail server refuses connections:")


def test_a_mail_server_that_refuses_the_login_is_found(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise smtplib.SMTPAuthenticationError(535, b"wrong password")

    monkeypatch.setattr("django.core.mail.backends.smtp.EmailBackend.open", refuse)
    settings.EMAIL_BACKEND = SMTP
    assert "wrong password" in only(doctor.check_mail).message


@pytest.mark.parametrize(
    ("valid", "level", "message"),
    [
        (timedelta(days=40), Level.OK, "valid for 39 days"),
        (timedelta(days=3), Level.WARNING, "The certificate of localhost expires in 2 days."),
        (timedelta(days=-1), Level.FAILURE, "The certificate of localhost is not valid: certificate has expired."),
    ],
)
def test_the_certificate_is_checked(
    valid: timedelta,
    level: Level,
    message: str,
    tmp_path: Path,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    authority = make_authority(tmp_path, valid=valid)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))
    with receiving(authority) as receiver:
        settings.PUBLIC_BASE_URL = f"https://{receiver.address}"
        finding = only(doctor.check_certificate)
    assert (finding.level, finding.message) == (level, message)


def test_an_address_that_cannot_be_reached_is_a_warning(settings: Settings) -> None:
    settings.PUBLIC_BASE_URL = f"https://localhost:{free_port()}"
    assert only(doctor.check_certificate).level is Level.WARNING


def test_certificates_of_hosts_in_a_database_urls_query_are_checked(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "postgresql:///sim?host=localhost,127.0.0.1&target_session_attrs=read-write&sslmode=require&port={}"
    with tls_server(make_authority(tmp_path, valid=timedelta(days=40)), after_ssl_request) as port:
        monkeypatch.setitem(settings.DATABASES, "default", Env.db_url_config(url.format(port)))
        _, *found = doctor.check_certificates()
    assert found == [doctor.ok("the certificate of PostgreSQL is valid for 39 days")] * 2


def test_a_check_that_fails_does_not_hide_the_others() -> None:
    def broken() -> Iterator[Finding]:
        yield doctor.ok("so far")
        raise ValueError("first line\nsecond line")

    found = list(doctor.run({"a": broken, "b": lambda: iter([doctor.ok("fine")])}))
    assert [(name, finding.level) for name, finding in found] == [("a", "ok"), ("a", "failure"), ("b", "ok")]
    assert "\n" not in found[1][1].message
