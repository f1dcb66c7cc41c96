import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings as deployed
from django.core.management import call_command
from django.test import Client as HttpClient
from django.test import override_settings

FOLDER = Path(deployed.BASE_DIR) / "static" / "css"
STYLESHEET = re.compile(r'<link rel="stylesheet" href="(/static/css/site\.[0-9a-f]{12}\.css)">')
COLLECTED = {"staticfiles": {"BACKEND": "simservice.web.static_files.CollectedFiles"}}


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The settings of a deployment, and its folder of collected files."""
    folder = tmp_path_factory.mktemp("collected")
    storages = {**deployed.STORAGES, **COLLECTED}
    with override_settings(STATIC_ROOT=folder, STORAGES=storages, WHITENOISE_USE_FINDERS=False):
        call_command("collectstatic", interactive=False, verbosity=0)
        yield folder


@pytest.mark.django_db
def test_pages_link_one_stylesheet_with_everything_in_its_layer(collected: Path) -> None:
    page = HttpClient().get("/").content.decode()
    assert page.count('rel="stylesheet"') == 1
    content = (collected / STYLESHEET.findall(page)[0].removeprefix("/static/")).read_text()
    assert "@import" not in content
    files = [path for path in FOLDER.rglob("*.css") if path.name not in ("site.css", "admin.css")]
    for path in files:
        layer = path.parent.name if path.parent != FOLDER else "base"
        # Addresses of pictures have hashes in the joined file.
        first_rule = path.read_text().split("\n")[1]
        assert f"@layer {layer} {{\n{path.read_text()[:40]}" in content, path
        assert first_rule.split("url(")[0] in content, path
    assert content.count("@layer ") == len(files) + 1


@pytest.mark.django_db
def test_copies_are_kept_for_good_and_sent_compressed(collected: Path) -> None:
    address = STYLESHEET.findall(HttpClient().get("/").content.decode())[0]
    response = HttpClient().get(address, headers={"accept-encoding": "gzip"})
    assert "immutable" in response["Cache-Control"]
    assert response["Content-Encoding"] == "gzip"
    content = gzip.decompress(response.getvalue())
    assert content == (collected / address.removeprefix("/static/")).read_bytes()


@pytest.mark.parametrize("name", ["css/site", "js/copy", "icon"])
def test_the_file_of_another_version_is_that_of_this_version(collected: Path, name: str) -> None:
    suffix = {"css/site": ".css", "js/copy": ".js", "icon": ".svg"}[name]
    response = HttpClient().get(f"/static/{name}.0123456789ab{suffix}")
    assert (response.status_code, response["Location"]) == (302, f"/static/{name}{suffix}")
    assert response["Cache-Control"] == "no-store"
    found = HttpClient().get(response["Location"])
    assert found.status_code == 200
    assert b"@import" not in found.getvalue()


@pytest.mark.parametrize("name", ["css/nothing.css", "css/site.0123.css", "css/nothing.0123456789ab.css"])
def test_files_that_no_version_has_are_not_found(collected: Path, name: str) -> None:
    assert HttpClient().get(f"/static/{name}", follow=True).status_code == 404
