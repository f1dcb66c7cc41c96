"""The pages of the guides and of the reference."""

import re

import pytest
from django.test import Client
from pytest_django import Settings

from dashboard.public.documents import FILES, INDEX, REFERENCE
from dashboard.public.guides import rendered_markdown, resolved

NAMES = sorted(name for name in FILES if name != INDEX)
GUIDES = [f"/docs/guides/{name}" for name in NAMES]
PATHS = ["/docs/guides", *GUIDES, *(f"/docs/{name}" for name in REFERENCE)]


def page(path: str) -> str:
    response = Client().get(path)
    assert response.status_code == 200, path
    return str(response.content.decode())


def ids_of(text: str) -> list[str]:
    return re.findall(r' id="([^"]+)"', text)


@pytest.mark.parametrize("path", PATHS)
def test_every_link_of_a_guide_leads_somewhere(path: str) -> None:
    text = page(path)
    for link in re.findall(r' href="([^"]+)"', text.partition("<main")[2].partition("</main>")[0]):
        target, _, anchor = link.partition("#")
        assert target.startswith("/docs") or not target or target in {"/v1/openapi.json", "/llms.txt"}, link
        assert not anchor or anchor in ids_of(page(target or path)), link


@pytest.mark.parametrize("path", PATHS)
def test_ids_of_a_guide_are_unique(path: str) -> None:
    ids = ids_of(page(path))
    assert len(ids) == len(set(ids))


def test_the_list_links_to_every_guide() -> None:
    assert {path for path in GUIDES if f'href="{path}"' not in page("/docs/guides")} == set()


@pytest.mark.parametrize("path", ["/docs", *PATHS])
def test_every_page_links_to_the_reference_and_to_the_list_of_guides(path: str) -> None:
    pages = ["/docs", "/docs/guides", *(f"/docs/{name}" for name in REFERENCE)]
    assert {target for target in pages if f'href="{target}"' not in page(path)} == set()


@pytest.mark.parametrize("name", ["nothing", INDEX, "nothing.md", "..%2fapi"])
@pytest.mark.parametrize("folder", ["/docs", "/docs/guides"])
def test_unknown_pages_are_not_found(folder: str, name: str) -> None:
    assert Client().get(f"{folder}/{name}").status_code == 404


def test_a_guide_names_the_address_and_the_resource_of_its_deployment(settings: Settings) -> None:
    settings.PUBLIC_BASE_URL, settings.API_RESOURCE = "https://sims.example", "runs"
    text = page("/docs/guides/tutorial")
    assert "export URL=https://sims.example\n" in text
    assert "$URL/v1/runs/jobs?" in text
    assert "Client(resource=&quot;runs&quot;)" in text
    assert "127.0.0.1" not in text
    assert "/v1/sim/" not in text


def test_the_reference_names_the_resource_and_the_brand_of_its_deployment(settings: Settings) -> None:
    settings.API_RESOURCE, settings.SERVICE_BRAND = "runs", "Acme"
    assert "<code>/v1/runs/</code>" in page("/docs/api")
    assert "/v1/sim/" not in page("/docs/api")
    assert "X-Acme-Signature" in page("/docs/webhooks")
    assert "X-Service-" not in page("/docs/webhooks")


def test_links_to_files_that_are_not_pages_become_text() -> None:
    html = rendered_markdown("# a\n\n[b](../../examples/b.py), [c](errors.md), [d](../explanation/d.md#e).").html
    assert '<p>b, <a href="/docs/errors">c</a>, d.</p>' in html


def test_names_of_columns_begin_with_a_capital_unless_they_are_code() -> None:
    html = rendered_markdown("# a\n\n| code | `meta` | |\n|---|---|---|\n| b | c | d |\n").html
    assert re.findall("<th>(.*?)</th>", html) == ["Code", "<code>meta</code>", ""]


def test_cells_of_wide_tables_name_their_columns() -> None:
    html = rendered_markdown("# a\n\n| b | c | `d` |\n|---|---|---|\n| e | f | g |\n| h | i | |\n").html
    assert '<td>e</td>\n<td data-label="C">f</td>\n<td data-label="d">g</td>' in html
    assert "data-label" not in rendered_markdown("# a\n\n| b | c |\n|---|---|\n| d | e |\n").html


@pytest.mark.parametrize("path", ["/docs/mcp", "/docs/mcp.md", "/docs/guides/read-reports"])
def test_pages_leave_out_comments_for_tests(path: str) -> None:
    assert "not run:" not in page(path)


def test_html_in_a_guide_is_escaped() -> None:
    html = rendered_markdown("# <i>a</i>\n\n<script>b</script>\n\n```bash\necho '<c>'\n```\n").html
    assert "&lt;i&gt;a" in html
    assert "<script>" not in html
    assert "<pre>echo &#x27;&lt;c&gt;&#x27;</pre>" in html


@pytest.mark.parametrize(
    ("link", "address"),
    [
        ("first-result.md", "/docs/guides/tutorial"),
        ("../tutorial/first-result.md#curl", "/docs/guides/tutorial#curl"),
        ("../how-to/use-the-api.md", "/docs/guides"),
        ("../reference/api.md#stages", "/docs/api#stages"),
        ("../openapi.json", "/v1/openapi.json"),
        ("#here", "#here"),
        ("https://example.org/a.md", "https://example.org/a.md"),
    ],
)
def test_links_to_files_become_links_to_pages(link: str, address: str) -> None:
    assert resolved(link) == address
