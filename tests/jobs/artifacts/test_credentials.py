"""Game credentials: stored encrypted, passed only to the simulator, never shown, deleted at the end."""

import io
import json
import logging
import socket
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings
from redis.exceptions import RedisError

from clients.audit import SYSTEM
from jobs import tasks
from jobs.artifacts import credentials
from jobs.artifacts.credentials import GameCredentials
from jobs.errors import CredentialStoreUnavailable
from jobs.execution import attempt, runner
from jobs.execution.outputs import MARK, Scrubber, scrubber_of
from jobs.lifecycle import cancellation, job_moves
from jobs.live.progress import log_entries_of
from jobs.models import Artifact, Job, JobEvent, Run
from jobs.queue import sweep
from jobs.results import details
from sandbox.process import Proxy
from simc.command import PROXY_PORT
from simservice import clocks
from simservice.ids import first_id_of, next_id
from simservice.redis.client import outage, redis
from tests.factories import make_job, make_running_job
from tests.jobs.game_api import HOST, FakeGameApi, echo, serving
from tests.jobs.simulators import LEAVE_REPORT, REPORT, claim, content, make_stand_in, run_with_action
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

# As long as real ones, with characters that JSON, HTML and URLs escape.
PAIR = GameCredentials(
    client_id="0123456789abcdef0123456789abcdef", client_secret='s3cr3t"<&/+>=0123456789abcdefghi'
)
BOTH = (PAIR.client_id, PAIR.client_secret)


def secret_job(body: str, folder: Path, **fields: object) -> Job:
    """Claim a job with credentials, on a fake simulator that runs some lines."""
    make_stand_in(folder, body)
    job = make_job(has_credentials=True, **fields)  # type: ignore[arg-type]
    credentials.store(job.pk, PAIR, seconds=60)
    return claim()


def execute(job: Job) -> Job:
    attempt.execute(job)
    return Job.objects.get(pk=job.pk)


class TestStore:
    def test_stored_credentials_can_be_fetched(self) -> None:
        credentials.store(1, PAIR, seconds=60)
        assert credentials.fetch(1, seconds=60) == PAIR
        credentials.forget(1)
        assert credentials.fetch(1, seconds=60) is None

    def test_redis_stores_credentials_encrypted_and_expiring(self) -> None:
        credentials.store(1, PAIR, seconds=60)
        stored = str(redis().get(credentials.key_of(1)))
        assert not any(secret in stored for secret in BOTH)
        assert 60 <= int(str(redis().ttl(credentials.key_of(1)))) <= 660

    def test_each_fetch_renews_the_expiry(self) -> None:
        credentials.store(1, PAIR, seconds=60)
        credentials.fetch(1, seconds=5000)
        assert int(str(redis().ttl(credentials.key_of(1)))) > 5000

    def test_credentials_of_another_job_are_not_accepted(self) -> None:
        credentials.store(1, PAIR, seconds=60)
        redis().rename(credentials.key_of(1), credentials.key_of(2))
        assert credentials.fetch(2, seconds=60) is None

    def test_credentials_are_lost_with_another_key(self, settings: Settings) -> None:
        credentials.store(1, PAIR, seconds=60)
        settings.SECRET_KEY = "another"
        assert credentials.fetch(1, seconds=60) is None

    def test_storing_credentials_fails_without_redis(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail() -> None:
            raise RedisError

        monkeypatch.setattr(credentials, "redis", fail)
        with pytest.raises(CredentialStoreUnavailable):
            credentials.store(1, PAIR, seconds=60)
        with pytest.raises(CredentialStoreUnavailable):
            credentials.fetch(1, seconds=60)
        credentials.forget(1)

    def test_an_outage_of_redis_is_remembered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        outage.record_failure(RedisError())
        monkeypatch.setattr(credentials, "redis", lambda: pytest.fail("it was asked"))
        with pytest.raises(CredentialStoreUnavailable):
            credentials.store(1, PAIR, seconds=60)

    def test_the_repr_contains_no_secret(self) -> None:
        assert repr(PAIR) == "GameCredentials()"


class TestScrubber:
    @pytest.mark.parametrize(
        "text",
        [
            PAIR.client_secret,
            json.dumps(PAIR.client_secret)[1:-1],
            "s3cr3t&quot;&lt;&amp;/+&gt;=0123456789abcdefghi",
            "s3cr3t%22%3C%26%2F%2B%3E%3D0123456789abcdefghi",
            "s3cr3t%22%3C%26/%2B%3E%3D0123456789abcdefghi",
        ],
        ids=["plain", "JSON", "HTML", "address", "path"],
    )
    def test_every_encoding_of_a_secret_is_removed(self, text: str) -> None:
        assert scrubber_of(PAIR).text(f"a {text} b") == f"a {MARK} b"

    @pytest.mark.parametrize("position", [0, 65_536 - 45, 65_536 - 10, 65_536 - 1, 131_072 - 5, 150_000])
    def test_secrets_are_removed_anywhere_in_a_file(self, position: int) -> None:
        raw = b"x" * position + PAIR.client_secret.encode() + b"y" * 100
        with scrubber_of(PAIR).stream(io.BytesIO(raw)) as clean:
            assert clean.read() == b"x" * position + MARK.encode() + b"y" * 100

    def test_a_secret_that_begins_with_another_is_removed_whole(self) -> None:
        assert Scrubber(["0123456789", "0123456789abc"]).text("0123456789abc") == MARK

    def test_texts_too_short_to_be_secrets_stay(self) -> None:
        assert Scrubber(["a"]).text("banana") == "banana"

    def test_without_secrets_nothing_is_copied(self) -> None:
        stream = io.BytesIO(b"x")
        assert scrubber_of(None).stream(stream) is stream


def test_only_the_simulators_own_file_contains_the_credentials(tmp_path: Path) -> None:
    checks = (
        f"text = open('apikey.txt').read(); assert text == {':'.join(BOTH)!r} + chr(10)\n"
        "assert os.stat('apikey.txt').st_mode & 0o077 == 0\n"
        f"told = str(sys.argv) + str(os.environ); assert not any(s in told for s in {BOTH!r})\n"
        "assert 'item_db_source=local/bcpapi' in sys.argv\n"
    )
    job = execute(secret_job(checks + LEAVE_REPORT, tmp_path))
    assert (job.status, job.status_reason) == ("completed", None)
    assert "game_api_exit" in Run.objects.get(job=job).sandbox_layers


ASK_THE_PROXY = f"""
import socket
def ask(target):
    with socket.create_connection(("127.0.0.1", {PROXY_PORT}), timeout=20) as exit_:
        exit_.sendall(f"CONNECT {{target}} HTTP/1.1\\r\\nHost: {{target}}\\r\\n\\r\\n".encode())
        print(target, exit_.recv(1000).split(b" ")[1].decode())
"""


def test_the_proxy_leads_to_the_game_api_only(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as database:
        port = database.getsockname()[1]
        targets = [
            f"127.0.0.1:{port}",
            f"localhost:{port}",
            "169.254.169.254:443",
            "example.org:443",
            "us.battle.net:80",
        ]
        body = f"{ASK_THE_PROXY}\nfor target in {targets!r}: ask(target)\n{LEAVE_REPORT}"
        job = execute(secret_job(body, tmp_path))
        database.settimeout(0.1)
        with pytest.raises(TimeoutError):
            database.accept()
    assert job.status == "completed"
    assert content(job, Artifact.Kind.STDOUT_LOG).decode().splitlines() == [f"{target} 403" for target in targets]


# Reads its arguments in order, as SimulationCraft does, and downloads as soon as it reads `armory=`.
DOWNLOADER = f"""
import socket
known = {{}}
def download(character):
    kind, host, port = known["proxy"].split(",")
    assert known["item_db_source"] == "local/bcpapi"
    pair = open("apikey.txt").read().strip()
    with socket.create_connection((host, int(port)), timeout=20) as proxy:
        proxy.sendall(b"CONNECT {HOST}:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
        assert b" 200 " in proxy.recv(1000)
        proxy.sendall(f"{{pair}} {{character}}".encode())
        return proxy.recv(1000).decode()
def read(options):
    for option in options:
        name, separator, value = option.strip().partition("=")
        if option.startswith("#"):
            continue
        if option and not separator:
            read(open(option).read().splitlines())
        elif name == "armory":
            print(download(value), flush=True)
        else:
            known[name] = value
read(sys.argv[1:])
{LEAVE_REPORT}
"""


@pytest.fixture
def game_api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGameApi]:
    """A game API that echoes what it receives and that the proxies of jobs connect to."""
    real = runner.game_api_proxy
    with serving(echo) as api:

        def game_api_proxy(job: Job) -> Proxy:
            return partial(real(job), resolve=api.resolve, connect=api.connect)  # type: ignore[call-arg]

        monkeypatch.setattr(runner, "game_api_proxy", game_api_proxy)
        yield api


def test_a_character_is_downloaded_while_it_is_read(tmp_path: Path, game_api: FakeGameApi) -> None:
    job = execute(secret_job(DOWNLOADER, tmp_path, text="armory=us,illidan,nobody\n"))
    assert (job.status, job.status_reason) == ("completed", None)
    assert game_api.lookups == [HOST]
    assert content(job, Artifact.Kind.STDOUT_LOG).decode() == f"{MARK}:{MARK} us,illidan,nobody\n"


def test_the_stored_input_downloads_in_the_same_order(tmp_path: Path, game_api: FakeGameApi) -> None:
    first = execute(secret_job(DOWNLOADER, tmp_path, text="armory=us,illidan,nobody\n"))
    stored = content(first, Artifact.Kind.INPUT).decode().splitlines()
    proxy = f"proxy=http,127.0.0.1,{PROXY_PORT}"
    assert stored.index(proxy) < stored.index("armory=us,illidan,nobody")
    assert stored[::-1].index(proxy) < stored[::-1].index("armory=us,illidan,nobody")


def test_a_profile_cannot_change_the_proxy(tmp_path: Path, game_api: FakeGameApi) -> None:
    """The policy refuses the option, and the simulator reads the service's value last."""
    reads = f"{DOWNLOADER}\nprint(known['proxy'], known['item_db_source'])"
    job = execute(secret_job(reads, tmp_path, text="proxy=http,evil,1\nitem_db_source=wowhead\nmage=A\n"))
    printed = content(job, Artifact.Kind.STDOUT_LOG).decode()
    assert printed == f"http,127.0.0.1,{PROXY_PORT} local/bcpapi\n"
    assert game_api.lookups == []


def test_jobs_without_credentials_have_no_file_and_no_network(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"assert not os.path.exists('apikey.txt')\n{LEAVE_REPORT}")
    make_job()
    job = execute(claim())
    assert job.status == "completed"
    assert "game_api_exit" not in Run.objects.get(job=job).sandbox_layers


def test_credentials_appear_in_no_output(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    named = {**REPORT, "sim": {"players": [{"name": PAIR.client_secret}], "options": {}}}
    prints = (
        f"print({PAIR.client_id!r}, flush=True); print({PAIR.client_secret!r}, file=sys.stderr, flush=True)\n"
        f"open('report.json', 'w').write({json.dumps(named)!r})\n"
        f"open('report.html', 'w').write({PAIR.client_secret!r})\n"
    )
    job = execute(secret_job(prints, tmp_path, html=True, csv=True, text=f"# {PAIR.client_id}\nmage=A\n"))
    assert job.status == "completed"
    outputs = [content(job, kind).decode() for kind in Artifact.Kind]
    everything = [*outputs, json.dumps(job.summary), caplog.text, str(JobEvent.objects.values())]
    everything.append(json.dumps(details.document_of(job)))
    assert not any(form in text for text in everything for form in (PAIR.client_id, "s3cr3t"))


def test_the_simulators_complaint_does_not_show_them(tmp_path: Path) -> None:
    complaint = f"print('Error: bad key ' + {PAIR.client_secret!r}, file=sys.stderr); sys.exit(1)"
    job = execute(secret_job(complaint, tmp_path))
    assert (job.error_code, job.status_reason) == ("simulation_error", f"bad key {MARK}")


def test_warnings_do_not_show_them_in_any_spelling(tmp_path: Path) -> None:
    escaped = "".join(f"\\u{ord(character):04x}" for character in PAIR.client_secret)
    report = json.dumps({**REPORT, "notifications": ["bad key KEY"]}).replace("KEY", escaped)
    print_warning = f"print('Warning: key ' + {PAIR.client_secret!r}, file=sys.stderr)"
    job = execute(secret_job(f"{print_warning}\nopen('report.json', 'w').write({report!r})", tmp_path))
    assert (job.summary or {})["warnings"] == [f"Warning: key {MARK}", f"bad key {MARK}"]


def test_details_do_not_show_them_in_any_spelling(tmp_path: Path) -> None:
    escaped = "".join(f"\\u{ord(character):04x}" for character in PAIR.client_secret)
    player = {**REPORT["sim"]["players"][0], "race": "KEY"}  # type: ignore[index]
    report = json.dumps({"sim": {"players": [player], "options": {}}}).replace("KEY", escaped)
    job = execute(secret_job(f"open('report.json', 'w').write({report!r})", tmp_path))
    found = details.details_of(job)
    assert found is not None
    assert found.actors[0].race == MARK


@pytest.mark.slow
def test_the_followed_output_does_not_show_them(tmp_path: Path) -> None:
    messages: list[str] = []

    def follow(job: Job) -> None:
        wait_until(lambda: bool(log_entries_of(job)))
        messages.extend(entry.message for entry in log_entries_of(job) or ())

    make_stand_in(tmp_path, f"print({PAIR.client_secret!r}, flush=True); time.sleep(3)\n{LEAVE_REPORT}")
    credentials.store(77, PAIR, seconds=60)
    run_with_action(follow, id=77, has_credentials=True)
    assert messages == [MARK]


def test_lost_ones_end_the_job_with_advice(tmp_path: Path) -> None:
    job = secret_job(LEAVE_REPORT, tmp_path)
    redis().flushdb()
    job = execute(job)
    assert (job.status, job.error_code, job.credits_consumed) == ("failed", "execution_failed", 0)
    assert "game credentials were lost" in str(job.status_reason)
    assert not Run.objects.exists()


def test_a_redis_that_comes_back_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "REDIS_RETRY_SECONDS", 0.01)
    fetch, failures = credentials.fetch, iter([CredentialStoreUnavailable(), CredentialStoreUnavailable()])

    def sometimes(job_id: int, *, seconds: int) -> GameCredentials | None:
        for error in failures:
            raise error
        return fetch(job_id, seconds=seconds)

    job = secret_job(LEAVE_REPORT, tmp_path)
    monkeypatch.setattr(credentials, "fetch", sometimes)
    assert execute(job).status == "completed"


@pytest.mark.parametrize("end", ["completed", "cancelled", "interrupted"])
def test_every_end_forgets_them(end: str, tmp_path: Path, settings: Settings) -> None:
    if end == "completed":
        job = execute(secret_job(LEAVE_REPORT, tmp_path))
    elif end == "cancelled":
        job = make_job(has_credentials=True)
        credentials.store(job.pk, PAIR, seconds=60)
        cancellation.cancel(job, by=SYSTEM)
    else:
        settings.MAX_ATTEMPTS = 1
        job = make_running_job(has_credentials=True)
        credentials.store(job.pk, PAIR, seconds=60)
        sweep.recover(job)
        job_moves.finish(job, sweep.interrupted(job))
    assert Job.objects.get(pk=job.pk).is_terminal
    assert not redis().exists(credentials.key_of(job.pk))


def test_a_lost_attempt_keeps_them_for_the_next() -> None:
    job = make_running_job(has_credentials=True)
    credentials.store(job.pk, PAIR, seconds=60)
    job_moves.requeue(job, reason="lost")
    assert redis().exists(credentials.key_of(job.pk))


def test_credentials_left_by_a_crash_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of running jobs and of submissions in progress stay."""
    ended_job, running = make_running_job(has_credentials=True), make_running_job(has_credentials=True)
    never_stored = next_id()
    monkeypatch.setattr(sweep, "SUBMITTED_WITHIN", timedelta(0))
    being_submitted = first_id_of(timezone.now() + timedelta(minutes=1))
    with monkeypatch.context() as patch:
        patch.setattr(credentials, "forget", lambda _: None)
        job_moves.finish(ended_job, job_moves.CANCELLED)
    for job_id in (ended_job.pk, running.pk, never_stored, being_submitted):
        credentials.store(job_id, PAIR, seconds=60)
    tasks.forget_credentials()
    assert set(credentials.stored_job_ids()) == {running.pk, being_submitted}


def test_a_process_with_a_wrong_clock_deletes_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "is_right", lambda: False)
    credentials.store(next_id(), PAIR, seconds=60)
    monkeypatch.setattr(sweep, "SUBMITTED_WITHIN", timedelta(0))
    tasks.forget_credentials()
    assert len(credentials.stored_job_ids()) == 1


def test_credentials_are_never_in_the_database(tmp_path: Path) -> None:
    job = execute(secret_job(LEAVE_REPORT, tmp_path))
    rows = [str(list(model.objects.values())) for model in (Job, JobEvent, Run, Artifact)]
    assert job.has_credentials
    assert not any(secret in text for text in rows for secret in BOTH)
