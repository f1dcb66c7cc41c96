"""Reports of realistic and excessive size, from the simulator to the API and the pages."""

import csv
import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.test import Client as HttpClient
from pytest_django import Settings

from clients.models import ApiKey
from jobs.execution.outputs import Outputs, Scrubber
from jobs.models import Artifact, Job
from sandbox.private_directory import PrivateDirectory
from simservice.storages import seekable_gzip
from tests.conftest import Api
from tests.dashboard.browsing import pages_of, text_of
from tests.factories import make_running_job
from tests.jobs.simulators import LEAVE_REPORT, content, make_stand_in, run

pytestmark = pytest.mark.django_db(transaction=True)

# 40 actors in 42 MB. A real report had 117 in 124 MB.
LEAVE_LARGE_REPORT = """
uptimes = ",".join(['{"name":"Icy Veins","uptime":41.172,"data":[2410.25,17,0.5]}'] * 17_250)
with open("report.json", "w") as report:
    report.write('{"sim":{"options":{"iterations":10},"players":[')
    for number in range(40):
        dps = {"count": 10, "mean": 1000 + number, "mean_std_dev": 1}
        data = json.dumps({"name": f"Actor {number}", "collected_data": {"dps": dps}})
        report.write("," * (number > 0) + data[:-1] + ',"buffs":[' + uptimes + "]}")
    report.write("]}}")
"""
MISSING_PAGE = f"{LEAVE_REPORT}\nos.truncate(os.open('report.html', os.O_CREAT | os.O_RDWR, 0o600), 300 << 20)"
SECOND_NAME = "It has more than one hard link."
TOO_LARGE = "is 300 MB in size; the limit is 256 MB."


def result_of(api: Api, job: Job) -> dict[str, Any]:
    """Return a job's result from the API."""
    result: dict[str, Any] = api.get(f"jobs/{job.pk}/result").json()["result"]
    return result


def share_page(job: Job) -> str:
    """Return the text of a job's share page."""
    return text_of(HttpClient().get(f"/share/{job.share_token}"))


@pytest.mark.slow
def test_a_report_of_42_mb_completes(tmp_path: Path, api: Api, key: tuple[ApiKey, str]) -> None:
    make_stand_in(tmp_path, LEAVE_LARGE_REPORT)
    job = run(key[0].client, csv=True, text='mage="Actor 0"\niterations=10\n')
    assert (job.status, job.status_reason) == ("completed", None)
    result = result_of(api, job)
    assert result["summary"]["actors"]["count"] == 40
    assert "missingArtifacts" not in result
    report = Artifact.objects.get(job=job, kind="json_report")
    assert report.bytes > 40_000_000
    assert stored_hash(report) == report.sha256
    assert all("Actor 39" in page and "1,039" in page for page in pages_of(job))


def stored_hash(artifact: Artifact) -> str:
    """Return the hash of an artifact's stored content."""
    digest = hashlib.sha256()
    file_range = seekable_gzip.locate(b"", start=0, stop=artifact.bytes)
    with default_storage.open(artifact.storage_name) as stored:
        for piece in seekable_gzip.unpack(stored, file_range=file_range, size=artifact.bytes):
            digest.update(piece)
    return digest.hexdigest()


def test_a_report_over_the_limit_fails_with_size_and_limit(
    tmp_path: Path, api: Api, key: tuple[ApiKey, str]
) -> None:
    make_stand_in(tmp_path, f"{LEAVE_REPORT}\nos.truncate('report.json', 300 << 20)")
    job = run(key[0].client)
    assert (job.status, job.error_code) == ("failed", "execution_failed")
    assert job.status_reason == f"The simulator wrote no valid report: it {TOO_LARGE}"
    missing = {"kind": "json_report", "name": "report.json", "stage": None, "reason": f"It {TOO_LARGE}"}
    assert result_of(api, job)["missingArtifacts"] == [missing]
    assert f"JSON report: It {TOO_LARGE}" in share_page(job)


def test_a_job_completes_without_an_oversized_html_report(
    tmp_path: Path, api: Api, key: tuple[ApiKey, str]
) -> None:
    make_stand_in(tmp_path, MISSING_PAGE)
    job = run(key[0].client, html=True)
    assert job.status == "completed"
    missing = {"kind": "html_report", "name": "report.html", "stage": None, "reason": f"It {TOO_LARGE}"}
    assert result_of(api, job)["missingArtifacts"] == [missing]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "The simulator did not write it."),
        ("os.mkdir('report.html')", "It is not a regular file."),
    ],
    ids=["absent", "folder"],
)
def test_an_unstored_html_report_is_listed_as_missing(
    tmp_path: Path, api: Api, key: tuple[ApiKey, str], body: str, reason: str
) -> None:
    make_stand_in(tmp_path, f"{LEAVE_REPORT}\n{body}")
    job = run(key[0].client, html=True)
    assert job.status == "completed"
    assert [missing["reason"] for missing in result_of(api, job)["missingArtifacts"]] == [reason]
    assert f"Missing files: HTML report: {reason}" in share_page(job)


@pytest.mark.parametrize(
    ("make", "reason"), [(Path.symlink_to, "It is a symbolic link."), (Path.hardlink_to, SECOND_NAME)]
)
def test_a_linked_html_report_is_listed_as_missing(
    tmp_path: Path, make: Callable[[Path, Path], None], reason: str
) -> None:
    directory = PrivateDirectory.create(tmp_path)
    for stream in ("stdout", "stderr"):
        directory.log(stream).touch()
    make(directory.cwd / "report.html", directory.log("stderr"))
    outputs = Outputs(make_running_job(), directory, Scrubber(), stage=2, has_html=True)
    stored = []
    for kind, opened in outputs.artifacts(""):
        opened.close()
        stored.append(kind)
    assert stored == ["input", "stdout_log", "stderr_log"]
    assert {"kind": "html_report", "stage": 2, "reason": reason} in outputs.missing


def test_the_csv_report_is_missing_without_results(tmp_path: Path, api: Api, key: tuple[ApiKey, str]) -> None:
    make_stand_in(tmp_path, "sys.exit(3)")
    job = run(key[0].client, csv=True)
    missing = {artifact["name"]: artifact["reason"] for artifact in result_of(api, job)["missingArtifacts"]}
    assert missing == {
        "report.json": "The simulator did not write it.",
        "result.csv": "There are no results to list.",
    }


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        ('{"sim": {"players": [{"name": "\' + "x" * (5 << 20) + \'"}]}}', "a string of more than 4 MB"),
        ('{"sim": \' + "[" * 5000 + \'', "nested too deeply"),
        ('{"sim": \' + "9" * 1_000_000 + \'}', "a number with too many digits"),
        ('{"sim": {"players": [{"name": "A", "level": NaN}]}}', "truncated or not valid JSON"),
    ],
    ids=["long text", "nesting", "long number", "not a number"],
)
def test_a_hostile_report_fails_the_job_with_its_reason(tmp_path: Path, report: str, reason: str) -> None:
    make_stand_in(tmp_path, f"open('report.json', 'w').write('{report}')")
    job = run()
    assert (job.status, job.error_code) == ("failed", "execution_failed")
    assert reason in str(job.status_reason)


def test_a_file_over_the_disk_limit_fails_with_the_limit(tmp_path: Path, settings: Settings) -> None:
    settings.SIM_DISK_BYTES = 8 << 20
    endless = "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nwith open('report.json', 'wb') as f:\n"
    make_stand_in(tmp_path, f"{endless}    while True: f.write(bytes(1 << 16))")
    job = run()
    assert job.status_reason == "The simulator exceeded the disk limit of 8 MB and was stopped."


def test_the_csv_report_lists_more_actors_than_the_summary(tmp_path: Path, settings: Settings) -> None:
    settings.API_VARIANT = "C"
    players = "[{'name': f'Actor {n}', 'collected_data': {'dps': {'mean': n + 1}}} for n in range(2000)]"
    make_stand_in(tmp_path, f"json.dump({{'sim': {{'players': {players}}}}}, open('report.json', 'w'))")
    job = run(csv=True)
    assert job.summary is not None
    assert (job.summary["actors"]["count"], len(job.summary["actors"]["results"])) == (2000, 200)
    table = content(job, Artifact.Kind.CSV_REPORT).decode()
    assert len(list(csv.reader(io.StringIO(table, newline="")))) == 2001
