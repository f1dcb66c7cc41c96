"""What an owner is told about responses and certificates of a receiver, over real TLS."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pytest_django import Settings

from clients.models import Client
from tests.webhooks.helpers import end_job
from tests.webhooks.receivers import Authority, Receiver, certificate, make_authority, receiving, respond
from webhooks import connection_pool, endpoints, http_client, labels, maintenance, tasks
from webhooks.connection_pool import ConnectionPool
from webhooks.http_client import Response
from webhooks.models import Delivery, Endpoint


def post(url: str) -> Response:
    with closing(ConnectionPool()) as connections:
        return http_client.post(url, {}, b"{}", client_id=1, connections=connections)


@contextmanager
def trusting(authority: Authority, settings: Settings, *, ca_file: str | None = None) -> Iterator[Receiver]:
    """Run a receiver with an authority's certificate; trust that authority, or another file."""
    # Folders of tests that passed are used again under the same name.
    connection_pool.tls_context.cache_clear()
    with receiving(authority) as running:
        settings.WEBHOOK_ALLOWED_ADDRESSES = [running.address]
        settings.WEBHOOK_CA_FILE = str(authority.ca_file) if ca_file is None else ca_file
        yield running


def pem(key: Any, *certificates: x509.Certificate) -> bytes:
    written = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return bytes(written) + b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def make_chain(folder: Path, *, sends: str) -> Authority:
    """Create a root, an intermediate and a server's certificate, and a server that sends some of them."""
    root_key, middle_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    root_name, middle_name, name = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in ("Root", "Intermediate", "Receiver")
    )
    is_authority = x509.BasicConstraints(ca=True, path_length=None)
    root = certificate(root_name, root_name, root_key.public_key()).add_extension(is_authority, critical=True)
    middle = certificate(middle_name, root_name, middle_key.public_key()).add_extension(is_authority, critical=True)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    issuer, issuer_key = (name, key) if sends == "itself" else (middle_name, middle_key)
    leaf = certificate(name, issuer, key.public_key()).add_extension(names, critical=False)
    signed = {
        "root": root.sign(root_key, hashes.SHA256()),
        "middle": middle.sign(root_key, hashes.SHA256()),
        "leaf": leaf.sign(issuer_key, hashes.SHA256()),
    }
    authority = Authority(folder / "root.pem", folder / "chain.pem")
    authority.ca_file.write_bytes(signed["root"].public_bytes(serialization.Encoding.PEM))
    sent = {"itself": ["leaf"], "leaf": ["leaf"], "chain": ["leaf", "middle"], "all": ["leaf", "middle", "root"]}
    authority.server_file.write_bytes(pem(key, *(signed[each] for each in sent[sends])))
    return authority


@pytest.mark.parametrize(
    ("sends", "trusted", "words"),
    [
        ("chain", True, ""),
        ("leaf", True, "incomplete certificate chain"),
        ("chain", False, "incomplete certificate chain"),
        ("all", False, "authority is not public"),
        ("itself", True, "is self-signed"),
    ],
)
def test_certificate_errors_are_told_apart(
    sends: str, *, trusted: bool, words: str, tmp_path: Path, settings: Settings
) -> None:
    authority = make_chain(tmp_path, sends=sends)
    with trusting(authority, settings, ca_file=None if trusted else "") as receiver:
        response = post(receiver.url())
    assert (response.status, response.problem) == ((None, "tls") if words else (200, "")), response.detail
    assert words in response.detail
    assert ("Install" in response.detail) == bool(words)


def test_an_expired_certificate_is_explained(tmp_path: Path, settings: Settings) -> None:
    with trusting(make_authority(tmp_path, valid=timedelta(days=-1)), settings) as receiver:
        response = post(receiver.url())
    assert (response.problem, response.detail) == (
        "tls",
        "The certificate has expired. Renew it, and restart the receiver.",
    )


def test_another_certificate_error_keeps_its_reason() -> None:
    assert labels.tls_advice(23, "certificate revoked") == "Certificate revoked."


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_names_its_target(status: int, receiver: Receiver) -> None:
    receiver.responders["/hook"] = lambda request: respond(request, status, location="https://example.com/new?a=1")
    response = post(receiver.url("/hook"))
    assert (response.status, response.detail) == (status, "Redirects to https://example.com/new?a=1")


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/hook/", "https://example.org/hook/"),
        ("//other.example/x", "https://other.example/x"),
        ("https://a.example/\u202eevil\x07", "https://a.example/evil"),
        ("https://[bad", "https://[bad"),
        ("https://a.example/" + "x" * 900, "https://a.example/" + "x" * 182 + "…"),
        ("", ""),
    ],
)
def test_a_target_is_one_short_printable_line(location: str, target: str) -> None:
    detail = labels.redirect_detail(302, "https://example.org/hook", location)
    assert detail == (f"Redirects to {target}" if target else "")


def test_a_redirect_without_a_target_has_no_detail(receiver: Receiver) -> None:
    assert post(receiver.url("/302")).detail == ""


def test_common_statuses_have_different_advice() -> None:
    texts = {status: labels.status_advice(status) for status in (301, 304, 401, 403, 404, 405, 410)}
    assert all(texts.values())
    assert len(set(texts.values())) == len(texts)
    assert texts[301] == labels.status_advice(308) == "Configure the final URL; redirects are not followed."
    assert labels.status_advice(500) == labels.status_advice(200) == labels.status_advice(None) == ""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (308, ["had status 308. Redirects to https://localhost", "redirects are not followed."]),
        (403, ["had status 403.", "bot protection"]),
        (410, ["had status 410.", "gone for good"]),
    ],
)
def test_the_mail_explains_the_last_attempt(
    status: int, words: list[str], configured: tuple[Client, str], receiver: Receiver
) -> None:
    client, _ = configured
    receiver.responders["/200"] = lambda request: respond(request, status, location="/new")
    end_job(client)
    tasks.deliver()
    assert Delivery.objects.get().outcome == "rejected"
    assert Endpoint.objects.get().is_enabled
    sentences = maintenance.last_failure(Endpoint.objects.get())
    assert sentences.startswith("Last attempt: ")
    for word in words:
        assert word in sentences


@pytest.mark.django_db
def test_an_endpoint_without_attempts_has_no_last_failure(configured: tuple[Client, str]) -> None:
    assert maintenance.last_failure(endpoints.of(configured[0])) == ""  # type: ignore[arg-type]
