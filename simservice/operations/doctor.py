"""Checks of a running deployment: its settings and the systems that it needs. `manage.py doctor` prints them."""

import logging
import os
import shutil
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from smtplib import SMTPException
from typing import NamedTuple
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks, mail
from django.core.files import File
from django.core.files.storage import default_storage
from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from redis.exceptions import RedisError, ResponseError

from simservice import clocks
from simservice.operations import certificates
from simservice.operations.checks import NO_MAIL
from simservice.postgresql.connections import is_pooled
from simservice.postgresql.migration_rules import CONTRACT, listed, phase_of
from simservice.redis.client import redis
from simservice.telemetry import known_errors

logger = logging.getLogger(__name__)

MIN_POSTGRESQL = 140_000
EXPIRES_SOON_DAYS = 14
NO_EVICTION = "noeviction"
MIN_FREE_FILES = 10_000
WRITTEN_BYTES = 1 << 20
# The permission of a bucket that each step needs
PERMISSIONS = {
    "save": "s3:PutObject",
    "read": "s3:GetObject",
    "list": "s3:ListBucket",
    "remove": "s3:DeleteObject",
}


class Level(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


class Finding(NamedTuple):
    """What a check found, and what to do about it."""

    level: Level
    message: str
    advice: str = ""


def ok(message: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(Level.OK, message)


def warning(message: str, advice: str) -> Finding:
    """Return a finding that does not stop the service from working."""
    return Finding(Level.WARNING, message, advice)


def failure(message: str, advice: str) -> Finding:
    """Return a finding that stops a part of the service from working."""
    return Finding(Level.FAILURE, message, advice)


def failure_of(error: BaseException, problem: str, advice: str) -> Finding:
    """Return a failure with the advice for the error's cause, or with `advice` if the cause is unknown."""
    cause = known_errors.explain(error)
    return failure(f"{problem}: {_one_line(error).removesuffix('.')}.", cause.advice if cause else advice)


Check = Callable[[], Iterator[Finding]]


def run(named_checks: dict[str, Check]) -> Iterator[tuple[str, Finding]]:
    """Run checks at the same time, and yield their findings in the given order."""
    with ThreadPoolExecutor(max_workers=len(named_checks)) as threads:
        results = {name: threads.submit(_findings_of, check) for name, check in named_checks.items()}
        for name, result in results.items():
            for finding in result.result():
                yield name, finding


def _findings_of(check: Check) -> Sequence[Finding]:
    found: list[Finding] = []
    try:
        found.extend(check())
    except (DatabaseError, RedisError) as error:
        found.append(failure_of(error, "Not checked", "Repair PostgreSQL or Redis first."))
    except Exception as error:
        if cause := known_errors.explain(error):
            found.append(failure(cause.problem, cause.advice))
        else:
            logger.exception("a check failed")
            found.append(failure(f"The check failed: {_one_line(error)}", "Report the traceback above."))
    finally:
        connection.close()
    return found


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


# Django's checks name its own settings, which the environment sets by other names.
ADVICE = {
    "security.W004": "Set HSTS_SECONDS once HTTPS works.",
    "security.W008": "Set SSL_REDIRECT=true, unless the proxy redirects.",
    "security.W012": "Set SECURE_COOKIES=true.",
    "security.W016": "Set SECURE_COOKIES=true.",
}


def check_settings() -> Iterator[Finding]:
    """Yield the warnings of `check --deploy`."""
    messages = [each for each in checks.run_checks(include_deployment_checks=True) if not each.is_silenced()]
    for message in messages:
        make = failure if message.is_serious() else warning
        advice = ADVICE.get(message.id or "") or " ".join((message.hint or "").split())
        yield make(" ".join(message.msg.split()), advice)
    if not messages:
        yield ok("suitable for production")


def check_database() -> Iterator[Finding]:
    """Yield the state of PostgreSQL and of its schema."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('server_version_num')::int, current_setting('server_version')")
            number, version = cursor.fetchone()
    except DatabaseError as error:
        advice = "Start it, and check DATABASE_URL and the network between them."
        yield failure_of(error, "PostgreSQL does not accept connections", advice)
        return
    if number < MIN_POSTGRESQL:
        yield failure(f"PostgreSQL {version} is too old.", "Upgrade it to version 14 or newer.")
    else:
        yield ok(f"PostgreSQL {version}")


def check_schema() -> Iterator[Finding]:
    """Yield migrations that are missing or were interrupted."""
    loader = MigrationLoader(connection)
    ours, applied = set(loader.disk_migrations), set(loader.applied_migrations)
    contracting = {key for key, migration in loader.disk_migrations.items() if phase_of(migration) == CONTRACT}
    missing, unknown = listed(ours - applied - contracting), listed(applied - ours)
    halves = _interrupted()
    if missing:
        yield failure(f"Not applied: {missing}.", "Run `python manage.py migrate --expand`.")
    if pending := listed(contracting - applied):
        yield warning(
            f"Not applied: {pending}.",
            "Once no process of the previous version is running, run `python manage.py migrate`.",
        )
    if halves:
        yield failure(
            f"A migration was interrupted, so these are not valid: {', '.join(halves)}.",
            "Run `python manage.py migrate --expand`. If they are listed again, drop indexes whose names end in "
            "`_ccnew` or `_ccold`, then run `REINDEX INDEX CONCURRENTLY` for each other index and `ALTER TABLE … "
            "VALIDATE CONSTRAINT` for each constraint.",
        )
    if unknown:
        yield warning(f"Migrations of a newer version are applied: {unknown}.", "Upgrade this process.")
    if not (missing or pending or halves or unknown):
        yield ok(f"all {len(ours)} migrations are applied")


def _interrupted() -> list[str]:
    """Return indexes and constraints that exist but are not valid."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid"
            " UNION ALL SELECT conname FROM pg_constraint WHERE NOT convalidated ORDER BY 1"
        )
        return [name for (name,) in cursor.fetchall()]


def check_redis() -> Iterator[Finding]:
    """Yield whether Redis accepts writes and keeps its keys."""
    key = f"doctor:{token_hex(8)}"
    try:
        redis().set(key, "1", ex=10)
        redis().delete(key)
        info = redis().info()
    except RedisError as error:
        yield failure_of(error, "Redis refuses writes", "Start it, and check REDIS_URL and Redis's log.")
        return
    used, maximum = int(info["used_memory"]), int(info.get("maxmemory", 0))
    policy = info.get("maxmemory_policy", NO_EVICTION)
    if policy != NO_EVICTION:
        yield warning(
            f"When its memory is full, Redis removes keys of running jobs: its `maxmemory-policy` is {policy}.",
            f"Set `maxmemory-policy {NO_EVICTION}`.",
        )
    elif maximum and used > 0.9 * maximum:
        yield warning(f"Redis uses {used:,} of {maximum:,} bytes.", "Raise `maxmemory`.")
    else:
        yield ok(f"Redis {info['redis_version']}")
    yield from _check_snapshots()


def _check_snapshots() -> Iterator[Finding]:
    """Yield a finding if Redis writes its data to a disk, or if it does not say."""
    try:
        writes = (
            redis().config_get("save").get("save") or redis().config_get("appendonly").get("appendonly") == "yes"
        )
    except ResponseError:
        # Managed services refuse CONFIG.
        yield ok("Redis refuses CONFIG GET, so it is unknown whether it writes snapshots")
        return
    if writes:
        yield warning(
            "Redis writes its data to disk, including the encrypted game credentials of unfinished jobs.",
            'Set `save ""` and `appendonly no`. The service needs no data in Redis after a restart.',
        )


def check_clock() -> Iterator[Finding]:
    """Yield by how much this machine's clock differs from those of PostgreSQL and Redis."""
    for name, clock in {"PostgreSQL": clocks.database_time, "Redis": clocks.redis_time}.items():
        if cause := known_errors.wrong_clock(name, ahead=clocks.seconds_ahead_of(clock)):
            yield failure(cause.problem, cause.advice)
            return
    yield ok(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")


def check_storage() -> Iterator[Finding]:
    """Yield whether a file can be saved, read, listed and removed."""
    folder = f"doctor-{token_hex(8)}"
    name, content = f"{folder}/file", os.urandom(32)
    steps: dict[str, Callable[[], object]] = {
        "save": lambda: default_storage.save(name, File(BytesIO(content), name)),
        "read": lambda: _require(_read(name) == content),
        "list": lambda: _require(default_storage.listdir(folder)[1] == ["file"]),
        "remove": lambda: default_storage.delete(name),
    }
    try:
        for step in steps:
            steps[step]()
    except OSError as error:
        yield failure_of(error, f"The storage of artifacts cannot {step} files", _storage_advice(step))
    else:
        yield ok("files can be saved, read, listed and removed")
    finally:
        with suppress(OSError):
            default_storage.delete(name)


def _read(name: str) -> bytes:
    with default_storage.open(name) as file:
        return bytes(file.read())


def _require(condition: bool) -> None:  # noqa: FBT001 - reads like an assertion
    if not condition:
        raise OSError("it returned different data from what was saved")


def _storage_advice(step: str) -> str:
    if settings.STORAGES["default"]["BACKEND"].endswith("LocalStorage"):
        return f"Let this user write in {settings.DATA_DIR / 'artifacts'}, and check that its disk has space."
    return f"Check the bucket's settings, and give its key the permission {PERMISSIONS[step]}."


def check_disk() -> Iterator[Finding]:
    """Yield whether the disks of private directories and temporary files have space for a run."""
    for name, folder in (("DATA_DIR", settings.DATA_DIR), ("TMPDIR", Path(tempfile.gettempdir()))):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _write_to(folder)
            free = shutil.disk_usage(folder).free
            files = os.statvfs(folder)
        except OSError as error:
            yield failure_of(error, f"{name} cannot be used", f"Make {folder} writable for this user.")
            continue
        # File systems without a fixed number of files report none.
        if files.f_files and files.f_favail < MIN_FREE_FILES:
            yield failure(f"{name} has space for only {files.f_favail} more files.", "Remove files from its disk.")
        if free < settings.SIM_DISK_BYTES:
            needed = settings.SIM_DISK_BYTES >> 20
            yield failure(
                f"{name} has {free >> 20:,} MiB left; one run may use {needed:,} MiB.",
                "Free space on its disk, or move it to a larger one.",
            )
        else:
            yield ok(f"{name} has {free >> 30:,} GiB left")


def _write_to(folder: Path) -> None:
    """Write a file and remove it. A quota can refuse that although the disk has space. Raises OSError."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(WRITTEN_BYTES))
        file.flush()
        os.fsync(file.fileno())


def check_mail() -> Iterator[Finding]:
    """Yield whether the mail server accepts a connection."""
    if settings.EMAIL_BACKEND == NO_MAIL:
        yield warning("No mail is sent.", "Set EMAIL_URL, for example smtp+tls://user:password@host:587.")
        return
    server = mail.get_connection()
    try:
        server.open()
        server.close()
    except OSError as error:
        yield failure_of(error, "The mail server refuses connections", "Check EMAIL_URL.")
    else:
        yield ok(f"{settings.EMAIL_HOST or 'the mail backend'} accepts connections")


def check_certificate() -> Iterator[Finding]:
    """Yield whether the public address has a valid certificate."""
    address = urlsplit(settings.PUBLIC_BASE_URL)
    if address.scheme != "https" or not address.hostname:
        yield ok("PUBLIC_BASE_URL does not use HTTPS")
        return
    try:
        expires = certificates.public_expiry(address.hostname, address.port or 443)
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or _one_line(error)
        yield failure(f"The certificate of {address.hostname} is not valid: {reason}.", "Renew or replace it.")
        return
    except OSError as error:
        yield warning(
            f"{settings.PUBLIC_BASE_URL} cannot be reached from here: {_one_line(error)}",
            "Check the name and the proxy, unless this machine is not supposed to reach it.",
        )
        return
    days = (expires - datetime.now(UTC)).days
    if days < EXPIRES_SOON_DAYS:
        yield warning(f"The certificate of {address.hostname} expires in {days} days.", "Renew it.")
    else:
        yield ok(f"valid for {days} days")


def check_certificates() -> Iterator[Finding]:
    """Yield whether the certificates of the public address and of the servers are valid."""
    yield from check_certificate()
    for name, fetch in certificates.servers():
        # The checks of these servers report that they do not respond.
        with suppress(OSError, SMTPException):
            yield _validity(name, *certificates.validity(fetch()))


def _validity(name: str, begins: datetime, ends: datetime) -> Finding:
    now = datetime.now(UTC)
    if ends <= now:
        return failure(f"The certificate of {name} expired on {ends:%Y-%m-%d}.", "Renew it.")
    if begins > now:
        advice = "Check this machine's clock."
        return failure(f"The certificate of {name} is not valid before {begins:%Y-%m-%d %H:%M} UTC.", advice)
    days = (ends - now).days
    if days < EXPIRES_SOON_DAYS:
        return warning(f"The certificate of {name} expires in {days} days.", "Renew it.")
    return ok(f"the certificate of {name} is valid for {days} days")


CHECKS: dict[str, Check] = {
    "settings": check_settings,
    "database": check_database,
    "schema": check_schema,
    "redis": check_redis,
    "clock": check_clock,
    "storage": check_storage,
    "disk": check_disk,
    "mail": check_mail,
    "certificate": check_certificates,
}


# What the service asks of PostgreSQL when it connects, and a pooler ignores.
LIMITS = (
    "idle_in_transaction_session_timeout",
    "lock_timeout",
    "client_connection_check_interval",
    "statement_timeout",
)
UNLIMITED = "SELECT name FROM pg_settings WHERE name = ANY(%s) AND setting = '0' ORDER BY 1"


def check_pooler() -> Iterator[Finding]:
    """Yield the time limits that a pooler leaves out."""
    connection.ensure_connection()
    if not is_pooled(connection):
        yield ok("none: connected directly to PostgreSQL")
        return
    with connection.cursor() as cursor:
        cursor.execute(UNLIMITED, [list(LIMITS)])
        missing = [name for (name,) in cursor.fetchall()]
    if missing:
        yield warning(
            f"The pooler connects without time limits: {', '.join(missing)}.",
            "Set them in its connect_query, as deploy/pgbouncer.ini does.",
        )
    else:
        yield ok("in use, with time limits")
