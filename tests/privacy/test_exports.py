"""Exports of the data of accounts and users."""

import tracemalloc
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clients.models import ApiKey, AuditEvent, Membership
from privacy import account_data, archive, exports, tasks
from privacy.errors import ExportPending
from privacy.models import Export, storage_name
from tests.concurrency import at_once
from tests.dashboard.browsing import browser_of, text_of
from tests.factories import PROFILE, actor_of, make_export, make_key, make_member, make_running_job
from tests.privacy.data import end_job, make_full_account, read_archive
from tests.s3_server import S3Server
from webhooks.models import Endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("each_storage")]


def export_of(owner: Membership) -> dict[str, list[Any]]:
    """Request, build and download an export of the account."""
    http, page = browser_of(owner), f"/dashboard/{owner.account}/data"
    assert http.post(page).status_code == 302
    tasks.build_exports()
    export = Export.objects.get()
    assert "Ready" in text_of(http.get(page))
    response: Any = http.get(f"{page}/exports/{export.pk}")
    content = b"".join(response.streaming_content)
    assert response.headers["Content-Length"] == str(len(content))
    return read_archive(content)


def test_an_account_is_exported_completely(owner: Membership) -> None:
    data = export_of(owner)
    assert {name: len(rows) for name, rows in data.items() if name != "credit_history.jsonl"} == {
        "account.jsonl": 1,
        "members.jsonl": 2,
        "invitations.jsonl": 1,
        "clients.jsonl": 2,
        "keys.jsonl": 1,
        "webhooks.jsonl": 1,
        "jobs.jsonl": 3,
        "usage.jsonl": 1,
        "grants.jsonl": 0,
        "webhook_events.jsonl": 1,
        "audit_log.jsonl": AuditEvent.objects.filter(account=owner.account).count(),
    }
    assert data["account.jsonl"][0]["low_credits_notice"] == 7
    assert (data["keys.jsonl"][0]["scope"], data["keys.jsonl"][0]["addresses"]) == ("read", ["192.0.2.7/32"])
    ended, *_ = data["jobs.jsonl"]
    assert (ended["profile"], ended["status"], len(ended["events"])) == (PROFILE, "cancelled", 4)
    (artifact,) = ended["artifacts"]
    response: Any = browser_of(owner).get(artifact["url"])
    assert b"".join(response.streaming_content) == b"mage=x"
    assert len(data["webhook_events.jsonl"][0]["deliveries"]) == 1
    assert sum(row["credits"] for row in data["credit_history.jsonl"]) > 0


def test_an_export_contains_no_secrets(owner: Membership) -> None:
    key, secret = make_key(owner.account)
    text = str(export_of(owner))
    endpoint = Endpoint.objects.get()
    for hidden in (secret, key.sha256, endpoint.secret, owner.user.password):
        assert hidden not in text


def test_an_export_contains_nothing_of_other_accounts(owner: Membership) -> None:
    other = make_full_account()
    text = str(export_of(owner))
    assert other.user.email not in text
    assert str(other.account) not in text


def test_a_user_is_exported(owner: Membership) -> None:
    http = browser_of(owner)
    assert http.post("/accounts/data/").status_code == 302
    tasks.build_exports()
    response: Any = http.get(f"/accounts/data/exports/{Export.objects.get().pk}/")
    data = read_archive(b"".join(response.streaming_content))
    assert data["user.jsonl"][0]["email"] == owner.user.email
    assert [row["account__name"] for row in data["memberships.jsonl"]] == [owner.account.name]
    assert len(data["keys.jsonl"]) == ApiKey.objects.filter(created_by=owner.user).count() == 1
    assert [row["action"] for row in data["audit_log.jsonl"]] == ["key.created"]


def test_a_users_export_is_private(owner: Membership) -> None:
    exports.request_user_export(owner.user)
    tasks.build_exports()
    number = Export.objects.get().pk
    other = make_member(owner.account)
    assert browser_of(other).get(f"/accounts/data/exports/{number}/").status_code == 404
    for who in (owner, other):
        assert browser_of(who).get(f"/dashboard/{owner.account}/data/exports/{number}").status_code == 404


def test_only_one_export_is_requested_at_a_time(owner: Membership) -> None:
    exports.request_account_export(owner.account, by=actor_of(owner))
    with pytest.raises(ExportPending):
        exports.request_account_export(owner.account, by=actor_of(owner))
    browser_of(owner).post(f"/dashboard/{owner.account}/data")
    exports.request_user_export(owner.user)
    assert Export.objects.count() == 2


def test_an_export_expires_with_its_file(owner: Membership) -> None:
    exports.request_account_export(owner.account, by=actor_of(owner))
    tasks.build_exports()
    export = Export.objects.get()
    Export.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert browser_of(owner).get(f"/dashboard/{owner.account}/data/exports/{export.pk}").status_code == 404
    tasks.delete_data()
    assert not Export.objects.exists()
    assert not default_storage.exists(export.file_name)


def test_a_killed_task_is_repeated(owner: Membership) -> None:
    exports.request_account_export(owner.account, by=actor_of(owner))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default_storage, "save", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            exports.build_waiting()
    assert exports.build_waiting() == 0
    Export.objects.update(lease_expires_at=timezone.now())
    assert exports.build_waiting() == 1


def test_an_export_fails_after_three_attempts(owner: Membership, s3_server: S3Server) -> None:
    exports.request_account_export(owner.account, by=actor_of(owner))
    with override_settings(STORAGES=s3_server.storages(secret_access_key="another")):
        for _ in range(4):
            assert exports.build_waiting() == 0
            Export.objects.update(lease_expires_at=timezone.now())
    assert Export.objects.get().failed_at is not None
    assert "Failed" in text_of(browser_of(owner).get(f"/dashboard/{owner.account}/data"))


def test_a_download_says_that_the_storage_is_down(owner: Membership, s3_server: S3Server) -> None:
    export = make_export(owner.account)
    with override_settings(STORAGES=s3_server.storages(secret_access_key="another")):
        response = browser_of(owner).get(f"/dashboard/{owner.account}/data/exports/{export.pk}")
    assert response.status_code == 503
    assert "Storage is not responding. Try again later." in text_of(response)


def test_a_lost_lease_stops_the_task(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "RENEWED_EVERY_SECONDS", 0.0)
    exports.request_account_export(owner.account, by=actor_of(owner))
    export = exports._claim()
    assert export is not None
    Export.objects.update(attempt=2)
    assert not exports.build(export)
    assert Export.objects.get().completed_at is None


def test_a_deleted_export_leaves_no_file(owner: Membership) -> None:
    exports.request_account_export(owner.account, by=actor_of(owner))
    export = exports._claim()
    assert export is not None
    assert exports.delete(exports.of_account(owner.account)) == 0
    Export.objects.all().delete()
    assert not exports.build(export)
    assert not default_storage.exists(export.file_name)


def test_a_lost_attempt_that_still_writes_changes_nothing(owner: Membership) -> None:
    exports.request_account_export(owner.account, by=actor_of(owner))
    lost = exports._claim()
    assert lost is not None
    Export.objects.update(lease_expires_at=timezone.now())
    tasks.build_exports()
    assert not exports.build(lost)
    assert not default_storage.exists(lost.file_name)
    assert default_storage.exists(Export.objects.get().file_name)
    default_storage.save(lost.file_name, ContentFile(b"killed while it wrote"))
    exports.delete(Export.objects.all())
    assert not default_storage.exists(lost.file_name)


def test_an_upload_renews_the_lease(owner: Membership) -> None:
    renewed: list[bool] = []
    with TemporaryFile() as content:
        content.write(b"text")
        content.seek(0)
        default_storage.save("exports/upload", exports.RenewingFile(content, lambda: renewed.append(True)))
    assert renewed
    with default_storage.open("exports/upload") as file:
        assert file.read() == b"text"
    default_storage.delete("exports/upload")


def test_a_new_export_replaces_the_previous_one(owner: Membership) -> None:
    own = exports.request_user_export(owner.user)
    for _ in range(2):
        latest = exports.request_account_export(owner.account, by=actor_of(owner))
        tasks.build_exports()
    tasks.delete_data()
    assert set(Export.objects.all()) == {own, latest}


def test_an_export_that_stays_does_not_stop_others(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    stays, _ = make_export(owner.account), make_export(owner.account)
    Export.objects.update(expires_at=timezone.now() - timedelta(days=1))
    delete = exports.delete

    def fail_for_one(chosen: list[Export]) -> int:
        if chosen == [stays]:
            raise OSError
        return delete(chosen)

    monkeypatch.setattr(exports, "delete", fail_for_one)
    tasks.delete_data()
    assert [*Export.objects.all()] == [stays]


def test_old_files_without_an_export_are_deleted(owner: Membership) -> None:
    known = Export.objects.create(account=owner.account, storage_name="exports/20200101-known")
    unknown, new = "exports/20200101-token-1.zip", f"{storage_name()}-1.zip"
    for name in (known.file_name, unknown, new):
        default_storage.save(name, ContentFile(b"text"))
    tasks.delete_data()
    assert [default_storage.exists(name) for name in (known.file_name, unknown, new)] == [True, False, True]
    for name in (known.file_name, new):
        default_storage.delete(name)


@pytest.mark.django_db(transaction=True)
def test_concurrent_tasks_build_one_export_at_a_time() -> None:
    owner = make_full_account()
    exports.request_account_export(owner.account, by=actor_of(owner))
    built: list[int] = []
    at_once(4, lambda: built.append(exports.build_waiting()))
    assert sum(built) == 1
    assert Export.objects.get().attempt == 1


def queries_of(owner: Membership) -> int:
    with CaptureQueriesContext(connection) as queries:
        write_nowhere(owner)
    return len(queries)


def write_nowhere(owner: Membership) -> None:
    with Path("/dev/null").open("wb") as nowhere:
        archive.write(nowhere, account_data.sections(owner.account), keep_alive=lambda: None)


def test_queries_do_not_grow_with_the_jobs_of_a_page(owner: Membership) -> None:
    before = queries_of(owner)
    for _ in range(5):
        end_job(make_running_job(client=owner.account.clients.get(is_default=False)))
    assert queries_of(owner) == before


@pytest.mark.slow
def test_an_export_is_written_in_bounded_memory(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_data, "JOBS_AT_ONCE", 2)
    for _ in range(20):
        make_running_job(client=owner.account.clients.get(is_default=False), text="x" * 1_000_000)
    tracemalloc.start()
    write_nowhere(owner)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12_000_000


def test_the_command_writes_a_file(owner: Membership, tmp_path: Path) -> None:
    target = tmp_path / "export.zip"
    call_command("exportaccount", owner.account.name, str(target))
    assert target.stat().st_mode & 0o777 == 0o600
    assert len(read_archive(target.read_bytes())["jobs.jsonl"]) == 3
    with pytest.raises(CommandError, match="was not written"):
        call_command("exportaccount", owner.account.name, str(target))
    with pytest.raises(CommandError, match="no account"):
        call_command("exportaccount", "unknown", str(target))


@pytest.mark.parametrize(("role", "status"), [("owner", 200), ("member", 403), ("viewer", 403)])
def test_only_owners_export(owner: Membership, role: str, status: int) -> None:
    http = browser_of(make_member(owner.account, role=role))
    assert http.get(f"/dashboard/{owner.account}/data").status_code == status
    assert browser_of(make_member()).get(f"/dashboard/{owner.account}/data").status_code == 404
    assert http.post(f"/dashboard/{owner.account}/data").status_code == (302 if status == 200 else 403)
