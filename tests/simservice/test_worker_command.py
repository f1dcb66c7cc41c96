"""The command that runs a worker: its arguments, and the handlers that set a worker up."""

import pytest
from celery.signals import worker_init

from simservice import database, worker
from simservice.celery import app

QUEUE = ["--queues", "sim"]


class Worker:
    """A worker that is being set up."""

    hostname, app = "control@here", app


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sim", *QUEUE, "--concurrency", "0"], "'0' is not a number of at least 1; for `sim`, set SIM_SLOTS"),
        (["sim", *QUEUE, "--concurrency", "-1"], "'-1' is not a number of at least 1"),
        (["sim", *QUEUE, "--concurrency", ""], "'' is not a number of at least 1"),
        (["simulate", *QUEUE], "invalid choice: 'simulate'"),
    ],
)
def test_invalid_arguments_are_reported(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        worker.main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_an_error_of_a_required_handler_ends_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "limit_statements", lambda _: 1 / 0)
    with pytest.raises(SystemExit) as ended:
        worker_init.send(sender=Worker())
    assert ended.value.code == 1
