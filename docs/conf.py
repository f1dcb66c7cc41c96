"""The site of the documentation, built from the Markdown files of the repository by Sphinx: `make docs`."""

from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "Simservice"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/**", "deploy/README.md", "sdk/python/README.md"]
exclude_patterns = [".*", "bench", "screenshots", "site", "staticfiles", "**/node_modules", "docs/screenshots"]

# The anchors of headings are those of the repository's page.
myst_heading_anchors = 6
myst_enable_extensions = ["html_image"]

html_theme = "furo"
html_title = project
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

NAVIGATION = {
    "Documentation": ["docs/README"],
    "Tutorial": ["docs/tutorial/*"],
    "How-tos": ["docs/how-to/*", "deploy/README", "sdk/python/README"],
    "Explanations": ["docs/explanation/*", "docs/explanation/decisions/*"],
    "Reference": ["docs/reference/*"],
    "Project": ["CHANGELOG", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT"],
}


def add_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    """Add the table of contents to the index. On the repository's page, it would be a block of code."""
    if page == root_doc:
        for title, pages in NAVIGATION.items():
            source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {title}\n\n{chr(10).join(pages)}\n```\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension of this file."""
    app.connect("source-read", add_navigation)
    for language in ("caddy", "mermaid", "simc"):
        app.add_lexer(language, TextLexer)
    return {"parallel_read_safe": True}
