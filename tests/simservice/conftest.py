"""The real web server, one per test module."""

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from tests.emptying import empty_database
from tests.factories import make_key
from tests.web_server import WebServer, web_server


@pytest.fixture(scope="module")
def web(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WebServer]:
    """The web server, with only its database and Redis."""
    with web_server(tmp_path_factory.mktemp("web") / "web.log") as server:
        yield server


@pytest.fixture(scope="module")
def bearer(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[bytes]:
    """An `Authorization` header of an account that the server's own connections can see."""
    with django_db_blocker.unblock():
        yield f"Authorization: Bearer {make_key()[1]}".encode()
        empty_database()


@pytest.fixture(scope="module")
def maintained(web: WebServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """A web server during a maintenance."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAINTENANCE_SECONDS", "60")
        with web_server(tmp_path_factory.mktemp("maintained") / "web.log") as server:
            yield server
