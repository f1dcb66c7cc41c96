"""Known causes of errors, named in one line of the log and by `doctor`, under real conditions."""

import io
import json
import logging
import os
import smtplib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest
from django.core import mail
from django.core.files.base import ContentFile
from django.db import connection, transaction
from django.test import Client as HttpClient
from pytest_django import Settings
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from jobs.artifacts import artifact_files
from jobs.models import Artifact
from simservice import worker_heartbeats
from simservice.operations import doctor
from simservice.operations.doctor import Finding, Level
from simservice.redis.client import redis
from simservice.storages.local import LocalStorage
from simservice.storages.s3 import PART_BYTES, BucketStorage
from simservice.telemetry import known_errors
from simservice.telemetry.known_errors import ExplainKnownErrors, explain
from tests.factories import make_key, make_running_job
from tests.small_disk import small_disk
from tests.tls_server import Negotiation, after_ssl_request, after_starttls, directly, tls_server
from tests.web_server import request, web_server
from tests.webhooks.receivers import Authority, make_authority

logger = logging.getLogger("tests.known_errors")
SMTP = "django.core.mail.backends.smtp.EmailBackend"
ERROR = '<?xml version="1.0"?><Error><Code>{0}</Code><Message>{0}</Message></Error>'


@pytest.fixture(autouse=True)
def _nothing_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_errors, "_logged", {})


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """The messages that are logged during a test by a handler like that of `settings.LOGGING`."""
    written: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            written.append(record.getMessage())

    handler = Lines()
    handler.addFilter(ExplainKnownErrors())
    root = logging.getLogger()
    root.addHandler(handler)
    yield written
    root.removeHandler(handler)


@pytest.fixture
def expired(tmp_path: Path) -> Authority:
    """An authority, and a server's certificate that expired yesterday."""
    return make_authority(tmp_path, valid=timedelta(days=-1))


def error_of(act: Callable[[], object]) -> Exception:
    """Return the exception that a function raises."""
    try:
        act()
    except Exception as error:
        return error
    raise AssertionError("no exception")


def problem_of(act: Callable[[], object]) -> str:
    """Return the known cause of the exception that a function raises, in one line."""
    cause = explain(error_of(act))
    assert cause is not None
    assert "\n" not in str(cause)
    return cause.problem


# Disks


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk with space for 64 KiB."""
    with small_disk(tmp_path / "small", kib=64) as folder:
        yield folder


@pytest.mark.django_db
def test_a_full_disk_is_named_when_a_file_is_stored(
    full_disk: Path, settings: Settings, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = f"{LocalStorage.__module__}.{LocalStorage.__qualname__}"
    settings.STORAGES = settings.STORAGES | {
        "default": {"BACKEND": backend, "OPTIONS": {"location": str(full_disk)}}
    }
    monkeypatch.setattr(artifact_files, "SAVE_WAITS_SECONDS", (0.0,))
    job = make_running_job()
    with pytest.raises(artifact_files.NotStored) as raised:
        artifact_files.store(job, Artifact.Kind.INPUT, io.BytesIO(os.urandom(1 << 20)))
    assert lines[0] == "A disk of this machine is full. Free space on the disks of DATA_DIR and TMPDIR."
    assert "not stored; trying again" in lines[1]
    logger.error("given up", exc_info=raised.value)
    assert lines[2:] == ["given up"], "the same advice is not repeated at once"


def test_doctor_names_a_full_disk(full_disk: Path, settings: Settings) -> None:
    settings.DATA_DIR, settings.SIM_DISK_BYTES = full_disk, 1
    finding = next(doctor.check_disk())
    assert finding.message.startswith("DATA_DIR cannot be used:")
    assert "No space left on device" in finding.message
    assert finding.advice == "Free space on the disks of DATA_DIR and TMPDIR."


def test_a_full_device_is_a_full_disk() -> None:
    def write() -> None:
        with Path("/dev/full").open("wb") as device:
            device.write(b"text")

    assert problem_of(write) == "A disk of this machine is full."


def test_a_forbidden_data_folder_is_named(tmp_path: Path, settings: Settings) -> None:
    """A file in place of a folder stops every user, even root."""
    (tmp_path / "data").touch()
    settings.DATA_DIR = tmp_path / "data"

    def write() -> Iterator[Finding]:
        yield Finding(Level.OK, str((settings.DATA_DIR / "workers").mkdir()))

    def elsewhere() -> None:
        (tmp_path / "data" / ".." / "other" / "file").touch()

    problem = f"{tmp_path}/data/workers cannot be used (Not a directory)."
    assert problem_of(lambda: list(write())) == problem
    (finding,) = doctor._findings_of(write)
    assert (finding.level, finding.message) == (Level.FAILURE, problem)
    settings.DATA_DIR = tmp_path / "another"
    assert explain(error_of(elsewhere)) is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("53100", "PostgreSQL's disk is full."),
        ("42P01", "The schema of the database does not match this version: it is full."),
        ("22012", None),
    ],
)
def test_errors_of_postgresql_are_told_apart(code: str, problem: str | None) -> None:
    """PostgreSQL raises the error, because its disk cannot be filled here."""

    def fail() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"DO $$BEGIN RAISE 'it is full' USING ERRCODE = '{code}'; END$$")

    cause = explain(error_of(fail))
    assert (cause and cause.problem) == problem


# Schema


@contextmanager
def half_migrated(column: str) -> Iterator[None]:
    """Take a column away, as if a migration had stopped before it added it."""
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE clients_client RENAME {column} TO not_yet")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE clients_client RENAME not_yet TO {column}")


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_web_server_names_a_half_applied_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_FORMAT", "json")
    _, key = make_key()
    with half_migrated("name"), web_server(tmp_path / "log") as web:
        response = web.send(request(b"/v1/sim/usage", b"Authorization: Bearer " + key.encode()))
    assert response.status == 500
    messages = [json.loads(line)["message"] for line in (tmp_path / "log").read_text().splitlines()]
    (named,) = [message for message in messages if message.startswith("The schema of the database")]
    assert named.endswith(
        "does not exist. Run `python manage.py migrate --expand`, then `python manage.py doctor`."
    )
    assert "\n" not in named


# Buckets


@contextmanager
def refusing(code: str, status: int = 403) -> Iterator[BucketStorage]:
    """A bucket whose server answers every request with an error."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = ERROR.format(code).encode()
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_GET = do_HEAD = do_POST = answer  # noqa: N815 - named by the base class

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield BucketStorage(bucket="artifacts", endpoint_url=address, access_key_id="id", secret_access_key="key")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_read_only_bucket_is_named(lines: list[str]) -> None:
    with refusing("AccessDenied") as bucket:
        error = error_of(lambda: bucket.save("a", ContentFile(b"text")))
    logger.warning("not stored: %s", error)
    assert lines[0] == "The bucket refuses PutObject (AccessDenied). Give its key the permission s3:PutObject."


@pytest.mark.parametrize(
    ("act", "advice"),
    [
        (lambda bucket: bucket.open("a"), "Give its key the permission s3:GetObject."),
        (lambda bucket: bucket.exists("a"), "Give its key the permission s3:GetObject."),
        (lambda bucket: bucket.listdir("a"), "Give its key the permission s3:ListBucket."),
        (
            lambda bucket: bucket.save("a", ContentFile(b"x" * (PART_BYTES + 1))),
            "Give its key the permission s3:PutObject.",
        ),
    ],
)
def test_the_missing_permission_of_a_bucket_is_named(act: Callable[[BucketStorage], object], advice: str) -> None:
    with refusing("AccessDenied") as bucket:
        cause = explain(error_of(lambda: act(bucket)))
    assert cause is not None
    assert cause.advice == advice


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("SlowDown", 503, "The bucket's service is overloaded or unavailable (SlowDown). Check its status"),
        ("InternalError", 500, "The bucket's service is overloaded or unavailable (InternalError). Check"),
        ("NoSuchBucket", 404, "The bucket refuses GetObject (NoSuchBucket). Check `ARTIFACTS_BUCKET`"),
        ("InvalidAccessKeyId", 403, "The bucket refuses GetObject (InvalidAccessKeyId). Check `ARTIFACTS_A"),
        ("InvalidRange", 416, "The bucket refuses GetObject (InvalidRange). Check the settings"),
    ],
)
def test_other_errors_of_a_bucket_name_no_permission(code: str, status: int, expected: str) -> None:
    with refusing(code, status) as bucket:
        assert str(explain(error_of(lambda: bucket.open("a")))).startswith(expected)


def test_a_bucket_that_sees_another_time_is_named() -> None:
    with refusing("RequestTimeTooSkewed") as bucket:
        problem = problem_of(lambda: bucket.save("a", ContentFile(b"text")))
    assert problem == "This machine's clock differs from that of the bucket's service."


def test_a_missing_object_has_no_cause() -> None:
    with refusing("NoSuchKey", 404) as bucket:
        assert explain(error_of(lambda: bucket.open("a").read())) is None


# Certificates


def test_the_expired_certificate_of_postgresql_is_named(expired: Authority) -> None:
    with tls_server(expired, after_ssl_request) as port:
        address = f"postgresql://u@localhost:{port}/x?sslmode=verify-full&sslrootcert={expired.ca_file}"
        problem = problem_of(lambda: psycopg.connect(address))
    assert problem == "The certificate of PostgreSQL is not valid: it may have expired."


def test_the_expired_certificate_of_redis_is_named(expired: Authority) -> None:
    with tls_server(expired) as port:
        address = f"rediss://localhost:{port}/0?ssl_ca_certs={expired.ca_file}"
        with Redis.from_url(address, retry=Retry(NoBackoff(), 0)) as client:
            problem = problem_of(client.ping)
    assert problem == "The certificate of Redis is not valid: certificate has expired."


@pytest.mark.django_db
def test_the_readiness_check_names_an_expired_certificate(
    expired: Authority, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_server(expired) as port:
        address = f"rediss://localhost:{port}/0?ssl_ca_certs={expired.ca_file}"
        monkeypatch.setattr(
            worker_heartbeats, "redis", lambda: Redis.from_url(address, retry=Retry(NoBackoff(), 0))
        )
        assert HttpClient().get("/readyz").json()["redis"] is False
    assert lines[0].startswith("The certificate of Redis is not valid: certificate has expired. Renew it")


def test_the_expired_certificate_of_a_bucket_is_named(expired: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(expired.ca_file))
    with tls_server(expired) as port:
        bucket = BucketStorage(
            bucket="a", endpoint_url=f"https://localhost:{port}", access_key_id="id", secret_access_key="key"
        )
        problem = problem_of(lambda: bucket.save("a", ContentFile(b"text")))
    assert problem == "The certificate of the bucket's service is not valid: certificate has expired."


@pytest.mark.parametrize("negotiate", [after_starttls, directly])
def test_the_expired_certificate_of_the_mail_server_is_named(
    negotiate: Negotiation, expired: Authority, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(expired.ca_file))
    settings.EMAIL_BACKEND, settings.EMAIL_HOST = SMTP, "localhost"
    settings.EMAIL_USE_TLS, settings.EMAIL_USE_SSL = negotiate is after_starttls, negotiate is directly
    with tls_server(expired, negotiate) as port:
        settings.EMAIL_PORT = port
        problem = problem_of(lambda: mail.send_mail("Hello", "Hello", None, ["jane@example.org"]))
        assert problem == "The certificate of the mail server is not valid: certificate has expired."
        (finding,) = doctor.check_mail()
        assert finding.advice.startswith("Renew it")
        assert expiries() == ["The certificate of the mail server expired"]


def expiries() -> list[str]:
    """Return what `doctor` says about expired certificates, without the dates."""
    failures = [found for found in doctor.check_certificates() if found.level is Level.FAILURE]
    return [finding.message.partition(" on ")[0] for finding in failures]


def test_doctor_finds_every_expired_certificate(
    expired: Authority, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_server(expired) as direct, tls_server(expired, after_ssl_request) as postgresql:
        # The first of the two hosts does not respond.
        database = {"HOST": "127.0.0.2,localhost", "PORT": postgresql, "OPTIONS": {"sslmode": "require"}}
        monkeypatch.setitem(settings.DATABASES, "default", database)
        settings.REDIS_URL = f"rediss://localhost:{direct}/0"
        bucket = {"OPTIONS": {"endpoint_url": f"https://localhost:{direct}"}}
        settings.STORAGES = settings.STORAGES | {"default": bucket}
        assert expiries() == [
            f"The certificate of {server} expired" for server in ("PostgreSQL", "Redis", "the bucket's service")
        ]


@pytest.mark.parametrize(
    ("valid", "expected"),
    [
        (timedelta(days=40), Finding(Level.OK, "the certificate of Redis is valid for 39 days")),
        (timedelta(days=3), Finding(Level.WARNING, "The certificate of Redis expires in 2 days.", "Renew it.")),
    ],
)
def test_doctor_warns_before_a_certificate_expires(
    valid: timedelta, expected: Finding, tmp_path: Path, settings: Settings
) -> None:
    with tls_server(make_authority(tmp_path, valid=valid)) as port:
        settings.REDIS_URL = f"rediss://localhost:{port}/0"
        assert list(doctor.check_certificates())[1:] == [expected]


def test_servers_that_do_not_respond_are_left_to_their_own_checks(settings: Settings) -> None:
    settings.REDIS_URL = "rediss://localhost:1/0"
    assert len(list(doctor.check_certificates())) == 1


# Redis and clocks


def test_a_redis_that_cannot_save_is_named() -> None:
    """Redis raises the error, because its disk cannot be filled here."""
    script = "return redis.error_reply('MISCONF Redis is configured to save RDB snapshots')"
    assert problem_of(lambda: redis().eval(script, 0)) == "Redis cannot write to its disk."


def test_a_full_redis_is_named() -> None:
    limit = str(redis().config_get("maxmemory")["maxmemory"])
    redis().config_set("maxmemory", 1)
    try:
        assert problem_of(lambda: redis().set("key", "value")) == "Redis's memory is full."
    finally:
        redis().config_set("maxmemory", limit)


@pytest.mark.usefixtures("empty_redis")
@pytest.mark.parametrize(("offset", "where"), [(60, "60.0 s ahead of"), (-60, "60.0 s behind")])
def test_a_worker_names_a_wrong_clock(
    offset: float, where: str, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time
    monkeypatch.setattr("simservice.worker_heartbeats.time.time", lambda: now() + offset)
    worker_heartbeats.report("sim@here")
    worker_heartbeats.simulation_workers()
    assert lines == [f"This machine's clock is {where} that of Redis. {known_errors.SYNCHRONIZE}"]


@pytest.mark.usefixtures("empty_redis")
def test_a_correct_clock_is_not_named(lines: list[str]) -> None:
    worker_heartbeats.report("sim@here")
    worker_heartbeats.simulation_workers()
    assert lines == []


# Log lines


def test_unknown_errors_are_logged_as_they_are(lines: list[str]) -> None:
    logger.error("it failed: %s", ValueError("why"))
    logger.error("it failed", exc_info=RedisError("why"))
    assert lines == ["it failed: why", "it failed"]


def test_a_cause_is_logged_again_after_a_minute(lines: list[str]) -> None:
    full = OSError(28, "No space left on device")
    logger.warning("first: %s", full)
    logger.warning("second: %s", full)
    for line in known_errors._logged:
        known_errors._logged[line] -= known_errors.REPEAT_SECONDS
    logger.warning("third: %s", full)
    assert [line.partition(".")[0] for line in lines] == [
        "A disk of this machine is full",
        "first: [Errno 28] No space left on device",
        "second: [Errno 28] No space left on device",
        "A disk of this machine is full",
        "third: [Errno 28] No space left on device",
    ]


def test_expired_certificates_of_two_servers_are_logged(lines: list[str]) -> None:
    for server in ("Redis", "PostgreSQL", "Redis"):
        known_errors.report(known_errors._invalid_certificate(server, "certificate has expired"))
    assert [line.partition(" is")[0] for line in lines] == [
        "The certificate of Redis",
        "The certificate of PostgreSQL",
    ]


def test_causes_can_be_told_apart_without_their_details(caplog: pytest.LogCaptureFixture) -> None:
    known_errors.report(known_errors._invalid_certificate("Redis", "certificate has expired"))
    assert caplog.records[0].msg.startswith("The certificate of %s is not valid: %s. Renew it")


def test_errors_that_caused_each_other_are_followed_once() -> None:
    first, second = ValueError("a"), smtplib.SMTPException("b")
    first.__cause__, second.__cause__ = second, first
    assert explain(first) is None
