"""Where the library finds the address and the key."""

import json
from pathlib import Path

import pytest

from simservice_client import Client, NotConfigured
from simservice_client._settings import Settings, configuration_file


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("SIMSERVICE_URL", "SIMSERVICE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def log_in(url: str = "https://sims.example", key: str = "stored") -> None:
    """Write the file that `simctl login` writes."""
    configuration_file().parent.mkdir(exist_ok=True)
    configuration_file().write_text(json.dumps({"url": url, "apiKey": key}))


def found(base_url: str | None = None, api_key: str | None = None) -> tuple[str, str]:
    settings = Settings.find(base_url=base_url, api_key=api_key)
    return settings.base_url, settings.api_key


def test_arguments_come_before_the_environment_and_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    log_in()
    assert found() == ("https://sims.example", "stored")
    monkeypatch.setenv("SIMSERVICE_API_KEY", "environment")
    assert found() == ("https://sims.example", "environment")
    monkeypatch.setenv("SIMSERVICE_URL", "http://localhost:8000/")
    assert found() == ("http://localhost:8000", "environment")
    assert found("https://other.example", "argument") == ("https://other.example", "argument")


@pytest.mark.parametrize("url", ["https://other.example", "http://sims.example", "https://sims.example:444"])
def test_a_stored_key_is_not_sent_to_another_service(url: str) -> None:
    log_in()
    with pytest.raises(NotConfigured, match=r"is for https://sims\.example"):
        found(url)
    assert found("https://sims.example/") == ("https://sims.example", "stored")


def test_what_is_missing_is_named() -> None:
    with pytest.raises(NotConfigured, match=r"no address.*SIMSERVICE_URL"):
        found()
    with pytest.raises(NotConfigured, match=r"no API key.*SIMSERVICE_API_KEY"):
        found("https://sims.example")


def test_a_damaged_file_matters_only_if_it_is_needed() -> None:
    log_in()
    configuration_file().write_text("{")
    assert found("https://sims.example", "argument") == ("https://sims.example", "argument")
    with pytest.raises(NotConfigured, match="cannot be read"):
        found()


@pytest.mark.parametrize("key", ["with space", "with\nline", "ü"])
def test_a_key_that_no_header_can_have_is_refused_without_naming_it(key: str) -> None:
    with pytest.raises(NotConfigured) as raised:
        found("https://sims.example", key)
    assert key not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "base", "resource"),
    [
        ("https://sims.example", "https://sims.example", "sim"),
        ("https://sims.example/v1", "https://sims.example", "sim"),
        ("https://sims.example/v1/raids/", "https://sims.example", "raids"),
        ("https://sims.example/below/v1/raids", "https://sims.example/below", "raids"),
    ],
)
def test_the_address_of_the_api_names_the_resource(url: str, base: str, resource: str) -> None:
    settings = Settings.find(base_url=url, api_key="key")
    assert (settings.base_url, settings.resource) == (base, resource)
    assert Client(url, "key", resource="other").base_url == base
    assert Settings.find(base_url=url, api_key="key", resource="other").resource == "other"


def test_no_object_shows_the_key() -> None:
    settings = Settings.find(base_url="http://127.0.0.1:1", api_key="sk_very_secret")
    with Client("http://127.0.0.1:1", "sk_very_secret") as client:
        shown = repr([settings, client, client.jobs, client.artifacts, vars(client)])
    assert "sk_very_secret" not in shown
